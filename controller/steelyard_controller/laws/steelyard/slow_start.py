"""Slow start of a peer that is new, restarted, or was away (step 11). Pure.

nginx has a slow start of its own for peers that its health checks took out: core/slow_start.lua.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, known_or_zero, summed
from steelyard_controller.laws.snapshot import SMALLEST_FIGURE, Bools, Floats
from steelyard_controller.laws.steelyard.busyness import Busyness
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.steelyard_parameters import WINDOW_S
from steelyard_controller.laws.steelyard.traffic import Traffic

# Slow start fills the other servers up to this load.
SLOW_START_LOAD = 0.9
# A peer without samples and requests is there if fewer than this number of requests were due.
DUE_REQUESTS = 1.0
# A peer that got none of this number of due requests is away. By chance, that happens once in 500 million
# times.
MISSED_REQUESTS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart:
    """Slow start (step 11), k: a peer's warmth in seconds, and whether it is away; m x 1: arriving."""

    away: Bools
    seen_s: Floats
    factor: Floats
    arriving: Floats


def weigh_slow_start(
    inputs: Inputs, busyness: Busyness, traffic: Traffic, in_flight: InFlight, capacity: Floats
) -> SlowStart:
    """Hold back a peer that is new or was away (step 11).

        join = clip(seen/ramp, join_min, 1)
        join += (1 - join) clip((arriving/0.9 - sum c join)/sum c (1 - join), 0, 1)     over present peers
        arriving = EWMA over 1 s of the requests/s that arrive;  c: `capacity`
        seen   + T while the peer is present, at most ramp and up;  - T, at least 0, while it is away;  0 out
               of service                                         up: time that the server has been up

    A peer is away if it got none of max(20, those of 2 d) requests that its weight would have given it. It is
    also away if it has no samples, and only failed requests, while others have some. A peer without samples
    is present between its requests, too: at few requests a second, most ticks have none for it. So it is
    before its first request, while less than one was due. A starting peer must take the requests that the
    others cannot carry.
    """
    snapshots, previous, parameters = inputs.snapshots, inputs.previous, inputs.parameters
    tick_s = snapshots.tick_s
    served = busyness.sampled | (known_or_zero(snapshots.completed) > 0)
    failing = ~served & (known_or_zero(snapshots.failed) > 0)
    resting = (
        ~served
        & ~failing
        & ((previous["seen_s"] > 0) | (in_flight.missed < DUE_REQUESTS))
        & (traffic.reportless_ticks == 0)
    )
    present = served | resting
    lost = failing & anybody(served) & (busyness.sampleless_ticks > inputs.patience_ticks)
    away = lost | (in_flight.missed >= np.maximum(MISSED_REQUESTS, in_flight.due))
    warmth_s = np.where(away, -tick_s, np.where(present, tick_s, 0.0))
    seen_s = np.fmin(clip(previous["seen_s"] + warmth_s, 0.0, parameters.ramp), snapshots.up_s)
    seen_s = np.where(snapshots.eligible, seen_s, 0.0)
    arriving = inputs.previous_scalars["arriving"]
    now = np.maximum(summed(traffic.expected), 0.0) / tick_s
    averaged = arriving + (1.0 - exp(-tick_s / WINDOW_S)) * (now - arriving)
    arriving = np.where(traffic.reportless_ticks == 0, averaged, arriving)
    factor = np.ones(seen_s.shape)
    if parameters.ramp > 0:
        factor = clip(seen_s / parameters.ramp, parameters.join_min, 1.0)
    if (factor < 1.0).any():
        there = snapshots.eligible & ~away
        missing = arriving / SLOW_START_LOAD - summed(capacity * factor, there)
        held_back = np.maximum(summed(capacity * (1.0 - factor), there), SMALLEST_FIGURE)
        needed = clip(missing / held_back, 0.0, 1.0)
        factor = np.where(there, factor + needed * (1.0 - factor), factor)
    return SlowStart(away=away, seen_s=seen_s, factor=factor, arriving=arriving)
