"""The window of a tick: load and requests of the same seconds (step 3). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.pairing import paired
from steelyard_controller.laws.small_arrays import anybody
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.laws.steelyard.busyness import Busyness
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.traffic import Traffic

# Sample and report of a pair begin up to this part of a window apart.
PHASE_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window paired at this tick (step 3), k each; figures are 0 if not `matched`.

    inferred     the load is inferred from the report: the peer has no agent
    load         l, 0..1
    count        n, requests completed
    in_flight    V, their mean number in flight
    tick         m x 1, ticks stepped so far
    rings        halves that wait for the other one, by the names of the schema
    """

    tick: Ints
    matched: Bools
    inferred: Bools
    load: Floats
    count: Floats
    in_flight: Floats
    rings: Mapping[str, Floats]


def pair_window(inputs: Inputs, busyness: Busyness, traffic: Traffic) -> Window:
    """File this tick's sample and report, and take out the window that they complete (step 3).

    A peer without an agent has the window of its report, with l = V/(V + V_half) (`_is_inferred`). V_half is
    that of the peers with one.
    """
    tick = inputs.previous_scalars["tick"].astype(np.int64) + 1
    pair = paired(
        tick=tick,
        previous=inputs.previous,
        load=busyness.load,
        sample_age_ticks=inputs.snapshots.sample_age_ticks,
        counts={"count_ring": traffic.count, "in_flight_ring": traffic.mean_in_flight},
        report_age_ticks=traffic.report_age_ticks,
    )
    inferred = _is_inferred(inputs, busyness, traffic) & ~pair.matched
    matched = (pair.matched | inferred) & inputs.snapshots.eligible
    reported = (traffic.count, traffic.mean_in_flight)
    count, in_flight = (
        np.where(matched, np.where(inferred, now, each), 0.0)
        for now, each in zip(reported, pair.counts, strict=True)
    )
    half = inputs.previous_scalars["in_flight_at_half"]
    load = np.where(inferred, in_flight / (in_flight + half), pair.load)
    return Window(
        tick=tick,
        matched=matched,
        inferred=inferred & matched,
        load=np.where(matched, np.minimum(load, 1.0), 0.0),
        count=count,
        in_flight=in_flight,
        rings=pair.rings,
    )


def _is_inferred(inputs: Inputs, busyness: Busyness, traffic: Traffic) -> Bools:
    """Return which peers have requests and never had a sample, while another one has samples."""
    recent = busyness.measured & (busyness.sampleless_ticks <= inputs.patience_ticks)
    inferred: Bools = ~busyness.measured & (traffic.mean_in_flight > 0) & anybody(recent & inputs.yardsticks)
    return inferred
