"""The window that a tick learns from: load and requests of the same seconds (step 3). Pure."""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.pairing import paired
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.residuals import Busyness
from steelyard_controller.laws.steelyard.traffic import Traffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was paired at this tick (step 3), k each; figures are 0 where nothing was `matched`.

    load         l, 0..1
    count        n, requests completed
    in_flight    V, their mean number in flight
    tick         m x 1, ticks stepped so far
    """

    tick: Ints
    matched: Bools
    load: Floats
    count: Floats
    in_flight: Floats
    load_ring: Floats
    count_ring: Floats
    in_flight_ring: Floats


def pair_window(inputs: Inputs, busyness: Busyness, traffic: Traffic) -> Window:
    """File this tick's sample and report, and take out the window whose other half was waiting (step 3)."""
    previous, tick = inputs.previous, inputs.previous_scalars["tick"].astype(np.int64) + 1
    pair = paired(
        tick=tick,
        load_ring=previous["load_ring"],
        count_rings=(previous["count_ring"], previous["in_flight_ring"]),
        load=busyness.load,
        sample_age_ticks=inputs.snapshots.sample_age_ticks,
        counts=(traffic.count, traffic.mean_in_flight),
        report_age_ticks=traffic.report_age_ticks,
    )
    matched = pair.matched & inputs.snapshots.eligible
    count, in_flight = (np.where(matched, each, 0.0) for each in pair.counts)
    return Window(
        tick=tick,
        matched=matched,
        load=np.where(matched, np.minimum(pair.load, 1.0), 0.0),
        count=count,
        in_flight=in_flight,
        load_ring=pair.load_ring,
        count_ring=pair.count_rings[0],
        in_flight_ring=pair.count_rings[1],
    )
