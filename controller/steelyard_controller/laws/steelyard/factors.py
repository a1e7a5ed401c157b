"""The factors that reduce a peer's capacity: backlog, slowness, failures, slow start (steps 6 to 9).

Pure.

    backlog = 1 - clip((D_j - Dm)/tau_q, -0.1, 0.95)    tau_q = max(3 s, T (1 + report age in ticks))
    slow    = min(1, kappa median(lat)/lat_j)^((1 - busy_j) ok^2/(ok^2 + 100))
    err     = min(1, s_j / median s)^3,  s = (ok + 5)/(ok + bad + 5)
    join    = clip((seen/ramp)^(1/aggression), join_min, 1)
"""

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, median, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.steelyard_parameters import (
    BACKLOG_ADDED_MAX,
    BACKLOG_SHORTEST_S,
    BACKLOG_TAKEN_MAX,
    FAILURE_POWER,
    FAILURE_PRIOR,
    SLOW_PRIOR,
    SteelyardParameters,
)


def waiting_s(in_flight: Floats, capacity: Floats, judged: Bools) -> tuple[Floats, Floats]:
    """Return D, k, seconds of work waiting at each peer; and Dm, m x 1, that of the judged peers together."""
    return in_flight / capacity, quotient(summed(in_flight, judged), summed(capacity, judged), 0.0)


def backlog(backlog_s: Floats, mean_backlog_s: Floats, report_age_ticks: int, tick_s: float) -> Floats:
    """Return the backlog factor, k: it takes off what works a backlog down over tau_q."""
    over_s = max(BACKLOG_SHORTEST_S, tick_s * (1 + report_age_ticks))
    factor: Floats = 1.0 - clip((backlog_s - mean_backlog_s) / over_s, -BACKLOG_ADDED_MAX, BACKLOG_TAKEN_MAX)
    return factor


def slow(latency_s: Floats, busy: Floats, ok: Floats, judged: Bools, kappa: float) -> Floats:
    """Return the slowness factor, k: slow although idle, and with evidence that it is."""
    timed = judged & (latency_s > 0)
    timed &= summed(timed) >= 2
    excess = np.minimum(1.0, kappa * median(latency_s, timed) / np.where(timed, latency_s, 1.0))
    certain = ok**2 / (ok**2 + SLOW_PRIOR**2)
    return np.where(timed, excess ** ((1.0 - busy) * certain), 1.0)


def err(ok: Floats, bad: Floats, judged: Bools) -> Floats:
    """Return the error factor, k, against the median: where all fail alike, none is reduced."""
    success = (ok + FAILURE_PRIOR) / (ok + bad + FAILURE_PRIOR)
    typical = np.where(anybody(judged), median(success, judged), 1.0)
    factor: Floats = np.minimum(1.0, success / typical) ** FAILURE_POWER
    return factor


def join(seen_s: Floats, parameters: SteelyardParameters) -> Floats:
    """Return the slow-start factor, k: Envoy's form, an exponent on the part of the ramp that has passed."""
    if parameters.ramp <= 0:
        return np.ones(seen_s.shape)
    passed: Floats = clip(seen_s / parameters.ramp, 0.0, 1.0) ** (1.0 / parameters.aggression)
    return clip(passed, parameters.join_min, 1.0)
