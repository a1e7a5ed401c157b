"""Requests in flight: those that wait, and those that are merely open (step 4). Pure.

An idle WebSocket, a long poll, a stream and a download are in flight, and nothing waits for them.
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.small_arrays import known_or_zero
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.paired_window import Window
from steelyard_controller.laws.steelyard.traffic import Traffic

# Below this load, no request needs to wait: those in flight are open. A peer that was full is free again.
CALM_LOAD = 0.8
# A usual request that takes this many durations waits for something without load: a lock, a pool. One that
# takes this many times less is answered by another server.
UNUSUAL_DURATIONS = 5.0
# Requests of the last two durations may be under way, and a backlog may take two.
PATIENCE_DURATIONS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The requests in flight at the window's end (step 4), k each.

    duration_s   d, duration of a usual request while none waits; NaN before the first
    known_duration_s   d; 0: not known
    open         O, requests that stay in flight though none waits; NaN before the first report
    waiting      Q - O, at least 0: requests that may wait
    missed       requests expected by its weight since it completed its last one
    due          number of these that may be on their way: those of 2 d
    quicker      lat < d/5, of the earlier d: no less load makes requests so much shorter
    """

    duration_s: Floats
    known_duration_s: Floats
    open: Floats
    waiting: Floats
    missed: Floats
    due: Floats
    quicker: Bools


def separate_waiting(inputs: Inputs, traffic: Traffic, window: Window) -> InFlight:
    """Separate waiting requests from open ones (step 4).

        d       the lower edge of lat: falls at once, rises by T/tau of the gap while l < 0.8
        calm    l < 0.8, lat <= 5 d, and the peer answers: fewer requests were due since its last one than
                max(1, those of 2 d)
        O      += (1 - e^(-T/tau_n)) (Q - V - O) while calm;  at most Q;  V: 0 if d > T_1
        waiting = Q - O

    T_1 = max(T, 1 s); l: load of the window; lat: a usual request's latency; Q: in flight; V: those that come
    and go within the window (Little's law). In the first report, all others count as open.
    """
    tick_s, previous = inputs.snapshots.tick_s, inputs.previous
    idle = window.matched & (window.load < CALM_LOAD)
    # Slowly, so that a queue does not pass for long requests.
    rise = min(1.0, tick_s / inputs.parameters.tau)
    duration_s = _duration_s(previous["d"], traffic.latency_s, np.where(idle, rise, 0.0))
    known_duration_s = known_or_zero(duration_s)
    snapshots = inputs.snapshots
    requested = known_or_zero(snapshots.completed) + known_or_zero(snapshots.failed) > 0
    missed = np.maximum(previous["missed"] + traffic.expected, 0.0)
    missed = np.where(requested | ~snapshots.eligible, 0.0, missed)
    due = PATIENCE_DURATIONS * known_duration_s / tick_s * traffic.expected
    calm = idle & (missed < np.maximum(1.0, due)) & ~(traffic.latency_s > UNUSUAL_DURATIONS * duration_s)
    before, part = previous["open"], 1.0 - np.exp(-tick_s / inputs.parameters.tau_n)
    short = ~(duration_s > inputs.window_s)
    stays = traffic.in_flight - np.where(short, known_or_zero(traffic.mean_in_flight), 0.0)
    stays = np.maximum(stays, 0.0)
    learnt = before + np.where(calm, part, 0.0) * (stays - before)
    stays = np.minimum(np.where(np.isnan(before), stays, learnt), traffic.in_flight)
    is_open = np.where(traffic.reportless_ticks == 0, stays, before)
    return InFlight(
        duration_s=duration_s,
        known_duration_s=known_duration_s,
        open=is_open,
        waiting=np.maximum(traffic.in_flight - known_or_zero(is_open), 0.0),
        missed=missed,
        due=due,
        quicker=UNUSUAL_DURATIONS * traffic.latency_s < previous["d"],
    )


def _duration_s(before: Floats, latency_s: Floats, part: Floats) -> Floats:
    risen = before + part * np.maximum(latency_s - before, 0.0)
    lower = np.fmin(np.where(np.isnan(latency_s), before, risen), latency_s)
    return np.where(np.isnan(before), latency_s, lower)
