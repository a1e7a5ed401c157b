"""The factors of a capacity, and the bounds of the product (steps 8 to 12). Pure."""

from dataclasses import dataclass
from math import exp, log

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, known_or_zero, median_of_others, summed
from steelyard_controller.laws.snapshot import SMALLEST_FIGURE, Bools, Floats
from steelyard_controller.laws.steelyard.capacity_estimate import Estimate
from steelyard_controller.laws.steelyard.in_flight import PATIENCE_DURATIONS, InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import waiting_s
from steelyard_controller.laws.steelyard.residuals import Busyness
from steelyard_controller.laws.steelyard.traffic import Traffic
from steelyard_controller.laws.steelyard.window import Window

# Largest additions to and deductions from a weight for a backlog, and the shortest time to work it off.
BACKLOG_ADDED_MAX, BACKLOG_TAKEN_MAX = 0.1, 0.95
BACKLOG_SHORTEST_S = 3.0
# A new window's part in `busy`: slowness is judged by the load of the last five seconds.
BUSY_SMOOTHING_PER_S = 0.2
# Requests: a single slow one, a hundred times the median, takes 3 % off; thirty count fully.
SLOW_PRIOR = 10.0
# Requests counted as successful beforehand, so that few failures do not make a large ratio.
FAILURE_PRIOR = 5.0
# With half of the requests failing, an eighth of the weight remains.
FAILURE_POWER = 3.0
# Slow start fills the other servers up to this load; arrivals are averaged over this time.
SLOW_START_LOAD, ARRIVING_S = 0.9, 1.0
# A peer that got none of this number of due requests is away. By chance, that happens once in 500 million
# times.
MISSED_REQUESTS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The backlog (step 8), k: wait_j and wait_m in seconds; NaN: counts in flight are too old."""

    waiting_s: Floats
    mean_waiting_s: Floats
    factor: Floats
    at_bound: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Slowness (step 9), k; `busy` is the load of the last seconds."""

    busy: Floats
    factor: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures (step 10), k."""

    factor: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart:
    """Slow start (step 11), k: a peer's warmth in seconds, and whether it is away; m x 1: arriving."""

    away: Bools
    seen_s: Floats
    factor: Floats
    arriving: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedWeights:
    """The weights before the scaling to S (step 12), k, and the peers at a bound."""

    weights: Floats
    at_floor: Bools
    at_ceiling: Bools


def weigh_backlog(inputs: Inputs, traffic: Traffic, in_flight: InFlight, estimate: Estimate) -> Backlog:
    """Reduce the weight so that the backlog is worked off within tau_q (step 8).

    backlog = 1 - clip((wait_j - wait_m)/tau_q, -0.1, 0.95)     tau_q = max(3 s, 2 d, T (1 + report age))
    """
    snapshots, live = inputs.snapshots, traffic.live
    waiting, mean = waiting_s(in_flight.waiting, estimate.capacity, inputs.yardsticks)
    shortest_s = max(BACKLOG_SHORTEST_S, snapshots.tick_s * (1 + snapshots.report_age_ticks))
    tau_q = np.maximum(shortest_s, PATIENCE_DURATIONS * in_flight.known_duration_s)
    factor = 1.0 - clip((waiting - mean) / tau_q, -BACKLOG_ADDED_MAX, BACKLOG_TAKEN_MAX)
    factor = np.where(live, factor, 1.0)
    at_bound = (factor >= 1.0 + BACKLOG_ADDED_MAX) | (factor <= 1.0 - BACKLOG_TAKEN_MAX)
    return Backlog(
        waiting_s=np.where(live, waiting, np.nan),
        mean_waiting_s=np.where(live, mean, np.nan),
        factor=factor,
        at_bound=at_bound,
    )


def weigh_slowness(inputs: Inputs, window: Window, traffic: Traffic) -> Slowness:
    """Reduce the weight of a peer that is slow although idle, by the amount of evidence (step 9).

        slow = min(1, kappa median_i(lat_i)/lat_j)^((1 - busy_j) ok^2/(ok^2 + 100))

    i: the others; lat: a usual request's latency; busy = max(l, EWMA_0.2(l)), the load now and of the last
    seconds; ok: requests completed, fading.
    """
    part = min(1.0, BUSY_SMOOTHING_PER_S * inputs.snapshots.tick_s)
    before = inputs.previous["busy"]
    smoothed = np.where(window.matched, before + part * (window.load - before), before)
    busy = np.maximum(smoothed, window.load)
    timed = inputs.yardsticks & (traffic.latency_s > 0)
    timed &= summed(timed) >= 2
    latency_s = np.where(timed, traffic.latency_s, 1.0)
    typical = median_of_others(traffic.latency_s, timed)
    excess = np.where(timed, np.minimum(1.0, inputs.parameters.kappa * typical / latency_s), 1.0)
    certain = traffic.ok**2 / (traffic.ok**2 + SLOW_PRIOR**2)
    factor = np.where(timed & traffic.live, excess ** ((1.0 - busy) * certain), 1.0)
    return Slowness(busy=smoothed, factor=factor)


def weigh_failures(inputs: Inputs, traffic: Traffic) -> Failures:
    """Reduce the weight of a peer that fails more than the others (step 10).

        err = min(1, success_j/median_i(success_i))^3,   success = (ok + 5)/(ok + bad + 5)

    i: the others; ok, bad: requests completed and failed, fading. If all fail alike, none is reduced.
    """
    success = (traffic.ok + FAILURE_PRIOR) / (traffic.ok + traffic.bad + FAILURE_PRIOR)
    typical = median_of_others(success, inputs.yardsticks)
    return Failures(factor=np.fmin(1.0, success / typical) ** FAILURE_POWER)


def weigh_slow_start(
    inputs: Inputs, busyness: Busyness, traffic: Traffic, in_flight: InFlight, capacity: Floats
) -> SlowStart:
    """Hold back a peer that is new or was away (step 11).

        join = clip((seen/ramp)^(1/aggression), join_min, 1)        Envoy's form
        join += (1 - join) clip((arriving/0.9 - sum c join)/sum c (1 - join), 0, 1)     over present peers
        arriving = EWMA over 1 s of the requests/s that arrive;  c: `capacity`
        seen   + T while the peer is present, at most ramp and up;  - T, at least 0, while it is away;  0 out
               of service                                         up: time that the server has been up

    A peer is away if it got none of max(20, those of 2 d) requests that its weight would have given it. It is
    also away if it has neither samples nor requests while others have some. A starting peer must take the
    requests that the others cannot carry.
    """
    snapshots, previous, parameters = inputs.snapshots, inputs.previous, inputs.parameters
    tick_s = snapshots.tick_s
    present = busyness.sampled | (known_or_zero(snapshots.completed) > 0)
    silent = ~present & anybody(present) & (busyness.sampleless_ticks > inputs.patience_ticks)
    away = silent | (in_flight.missed >= np.maximum(MISSED_REQUESTS, in_flight.due))
    warmth_s = np.where(away, -tick_s, np.where(present, tick_s, 0.0))
    seen_s = np.fmin(clip(previous["seen_s"] + warmth_s, 0.0, parameters.ramp), snapshots.up_s)
    seen_s = np.where(snapshots.eligible, seen_s, 0.0)
    arriving = inputs.previous_scalars["arriving"]
    now = np.maximum(summed(traffic.expected), 0.0) / tick_s
    averaged = arriving + (1.0 - exp(-tick_s / ARRIVING_S)) * (now - arriving)
    arriving = np.where(traffic.reportless_ticks == 0, averaged, arriving)
    factor = np.ones(seen_s.shape)
    if parameters.ramp > 0:
        passed: Floats = clip(seen_s / parameters.ramp, 0.0, 1.0) ** (1.0 / parameters.aggression)
        factor = clip(passed, parameters.join_min, 1.0)
    if (factor < 1.0).any():
        there = snapshots.eligible & ~away
        missing = arriving / SLOW_START_LOAD - summed(capacity * factor, there)
        held_back = np.maximum(summed(capacity * (1.0 - factor), there), SMALLEST_FIGURE)
        needed = clip(missing / held_back, 0.0, 1.0)
        factor = np.where(there, factor + needed * (1.0 - factor), factor)
    return SlowStart(away=away, seen_s=seen_s, factor=factor, arriving=arriving)


def bound_weights(inputs: Inputs, weight: Floats) -> BoundedWeights:
    """Keep the weights within bounds of the baseline (step 12).

    ln(W_j/W_Sj) clipped to [ln m_min, z_max]        W_j: `weight`, scaled to S as the baselines W_S are
    """
    baseline, parameters = inputs.baseline, inputs.parameters
    log_ratio = np.log(weight * (inputs.total / summed(weight)) / baseline) if inputs.snapshots.k else weight
    clipped = clip(log_ratio, log(parameters.m_min), parameters.z_max)
    return BoundedWeights(
        weights=baseline * np.exp(clipped), at_floor=log_ratio < clipped, at_ceiling=log_ratio > clipped
    )
