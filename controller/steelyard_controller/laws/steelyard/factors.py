"""What a capacity is multiplied with, and the bounds of the product (steps 8 to 12). Pure."""

from dataclasses import dataclass
from math import exp, log

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, known_or_zero, median_of_others, summed
from steelyard_controller.laws.snapshot import SMALLEST_FIGURE, Bools, Floats
from steelyard_controller.laws.steelyard.capacity_estimate import Estimate
from steelyard_controller.laws.steelyard.in_flight import DURATIONS, InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import waiting_s
from steelyard_controller.laws.steelyard.residuals import Busyness
from steelyard_controller.laws.steelyard.traffic import Traffic
from steelyard_controller.laws.steelyard.window import Window

# What a backlog may add to a weight and take off it, and the shortest time to work it off in.
BACKLOG_ADDED_MAX, BACKLOG_TAKEN_MAX = 0.1, 0.95
BACKLOG_SHORTEST_S = 3.0
# A new window's part in `busy`: slowness is judged by the load of the last five seconds or so.
BUSY_SMOOTHING_PER_S = 0.2
SLOW_PRIOR = 10.0  # requests: a single slow one, a hundred times the median, takes 3 %; thirty tell
FAILURE_PRIOR = 5.0  # five requests' worth of "fine" before a ratio of failures means much
FAILURE_POWER = 3.0  # half the requests failing is an eighth of the weight
# So full slow start makes the others, and no fuller; and over so long is averaged what comes.
SLOW_START_LOAD, ARRIVING_S = 0.9, 1.0
# A peer that got none of so many requests that were due to it is not there, whoever saw it: by chance it is
# once in 500 million times.
MISSED_REQUESTS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The backlog (step 8), k: D and Dm in seconds, NaN where in-flight counts cannot be believed."""

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
    """Slow start (step 11), k: how warm a peer is, in seconds, and whether it is not there; m x 1: r."""

    away: Bools
    seen_s: Floats
    factor: Floats
    arriving: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedWeights:
    """The weights before they are scaled to S (step 12), k, and who is at a bound."""

    weights: Floats
    at_floor: Bools
    at_ceiling: Bools


def weigh_backlog(inputs: Inputs, traffic: Traffic, in_flight: InFlight, estimate: Estimate) -> Backlog:
    """Take off what works a backlog down over tau_q (step 8).

    backlog = 1 - clip((D_j - Dm)/tau_q, -0.1, 0.95)     tau_q = max(3 s, 2 d, T (1 + report age))
    """
    snapshots, live = inputs.snapshots, traffic.live
    waiting, mean = waiting_s(in_flight.waiting, estimate.capacity, inputs.yardsticks)
    shortest_s = max(BACKLOG_SHORTEST_S, snapshots.tick_s * (1 + snapshots.report_age_ticks))
    tau_q = np.maximum(shortest_s, DURATIONS * in_flight.known_duration_s)
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
    """Take off for being slow although idle, and with evidence that it is so (step 9).

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
    """Take off for failing more than the others (step 10).

        err = min(1, s_j/median_i(s_i))^3,   s = (ok + 5)/(ok + bad + 5)

    i: the others; ok, bad: requests completed and failed, fading. Where all fail alike, none is reduced.
    """
    success = (traffic.ok + FAILURE_PRIOR) / (traffic.ok + traffic.bad + FAILURE_PRIOR)
    typical = median_of_others(success, inputs.yardsticks)
    return Failures(factor=np.fmin(1.0, success / typical) ** FAILURE_POWER)


def weigh_slow_start(
    inputs: Inputs, busyness: Busyness, traffic: Traffic, in_flight: InFlight, able: Floats
) -> SlowStart:
    """Hold a peer that has just come, or was away (step 11).

        join = clip((seen/ramp)^(1/aggression), join_min, 1)        Envoy's form
        join += (1 - join) clip((r/0.9 - sum c join)/sum c (1 - join), 0, 1)        over peers that are there
        r    = EWMA over 1 s of the requests/s that come;  c: `able`
        seen   + T while the peer is there, at most ramp and up;  - T, at least 0, while it is not;  0 out of
               service                                            up: for how long the server has been up

    It is not there where it has got none of 20 requests that its weight would have given it, and of those of
    2 d; or has neither samples nor requests while others have. What the others cannot carry nobody is spared.
    """
    snapshots, previous, parameters = inputs.snapshots, inputs.previous, inputs.parameters
    tick_s = snapshots.tick_s
    present = busyness.sampled | (known_or_zero(snapshots.completed) > 0)
    silent = ~present & anybody(present) & (busyness.sampleless_ticks > inputs.patience_ticks)
    away = silent | (in_flight.missed >= np.maximum(MISSED_REQUESTS, in_flight.due))
    warmer_s = np.where(away, -tick_s, np.where(present, tick_s, 0.0))
    seen_s = np.fmin(clip(previous["seen_s"] + warmer_s, 0.0, parameters.ramp), snapshots.up_s)
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
        missing = arriving / SLOW_START_LOAD - summed(able * factor, there)
        spared = np.maximum(summed(able * (1.0 - factor), there), SMALLEST_FIGURE)
        needed = clip(missing / spared, 0.0, 1.0)
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
