"""What of the requests in flight waits, and what is merely open (step 4). Pure.

An idle WebSocket, a long poll, a stream, a download: each is in flight, and nothing waits for it.
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.small_arrays import known_or_zero
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.traffic import Traffic
from steelyard_controller.laws.steelyard.window import Window

# With less load nobody need wait: what is in flight then is open.
CALM = 0.8
# A usual request that takes longer than so many times its duration waits for something that is no load:
# a lock, a pool of connections.
WAITS = 5.0
# Evidence is of five durations at least; within two a request may be under way, or a backlog be worked off.
EVIDENCE_DURATIONS, DURATIONS = 5.0, 2.0
# A duration that has become longer is believed so slowly: a queue must not pass for long requests.
LONGER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """The requests in flight at the window's end (step 4), k each.

    duration_s   d, how long a usual request takes where none waits; NaN before the first
    open         O, what stays in flight though nothing waits; NaN before the first report
    waiting      Q - O, not below 0: what may wait
    missed       requests that its weight would have given it since it completed its last one
    due          of these so many may be on their way: those of 2 d
    """

    duration_s: Floats
    open: Floats
    waiting: Floats
    missed: Floats
    due: Floats

    def evidence_fade(self, tau: float, tick_s: float) -> Floats:
        """Return what is left of evidence after a tick: it fades with max(tau, 5 d)."""
        faded: Floats = np.exp(-tick_s / np.maximum(tau, EVIDENCE_DURATIONS * self.known_duration_s))
        return faded

    @property
    def known_duration_s(self) -> Floats:
        """Return d, 0 where it is not known."""
        return known_or_zero(self.duration_s)


def tell_waiting(inputs: Inputs, traffic: Traffic, window: Window) -> InFlight:
    """Tell what waits from what is open (step 4).

        d       the lower edge of lat: falls at once, rises by T/30 of the gap where l < 0.8
        calm    l < 0.8, lat <= 5 d, and the peer answers: since its last request fewer than one was due to
                it, or than those of 2 d
        O      += (1 - e^(-T/tau_n)) (Q - V - O) where calm;  never above Q;  V: 0 where d > T_1
        waiting = Q - O

    T_1 = max(T, 1 s); l: load of the window; lat: a usual request's latency; Q: in flight; V: those of them
    that come and go in the window (Little's law). What is reported first counts as open but for these.
    """
    tick_s, previous = inputs.snapshots.tick_s, inputs.previous
    idle = window.matched & (window.load < CALM)
    duration_s = _duration_s(previous["d"], traffic.latency_s, idle, tick_s)
    snapshots = inputs.snapshots
    requested = known_or_zero(snapshots.completed) + known_or_zero(snapshots.failed) > 0
    missed = np.maximum(previous["missed"] + traffic.expected, 0.0)
    missed = np.where(requested | ~snapshots.eligible, 0.0, missed)
    due = DURATIONS * known_or_zero(duration_s) / tick_s * traffic.expected
    calm = idle & (missed < np.maximum(1.0, due)) & ~(traffic.latency_s > WAITS * duration_s)
    before, part = previous["open"], 1.0 - np.exp(-tick_s / inputs.parameters.tau_n)
    short = ~(duration_s > inputs.window_s)
    stays = traffic.in_flight - np.where(short, known_or_zero(traffic.mean_in_flight), 0.0)
    stays = np.maximum(stays, 0.0)
    learnt = before + np.where(calm, part, 0.0) * (stays - before)
    stays = np.minimum(np.where(np.isnan(before), stays, learnt), traffic.in_flight)
    is_open = np.where(traffic.reportless_ticks == 0, stays, before)
    return InFlight(
        duration_s=duration_s,
        open=is_open,
        waiting=np.maximum(traffic.in_flight - known_or_zero(is_open), 0.0),
        missed=missed,
        due=due,
    )


def _duration_s(before: Floats, latency_s: Floats, idle: Bools, tick_s: float) -> Floats:
    part = np.where(idle, min(1.0, tick_s / LONGER_S), 0.0)
    risen = before + part * np.maximum(latency_s - before, 0.0)
    lower = np.fmin(np.where(np.isnan(latency_s), before, risen), latency_s)
    return np.where(np.isnan(before), latency_s, lower)
