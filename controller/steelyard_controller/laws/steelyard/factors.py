"""What a capacity is multiplied with, and the bounds of the product (steps 7 to 11). Pure."""

from dataclasses import dataclass
from math import log

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, known_or_zero, median, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.capacity_estimate import Estimate
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
# A peer without samples and without requests for this long was away: it starts slowly again.
AWAY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The backlog (step 7), k: D and Dm in seconds, NaN where in-flight counts cannot be believed."""

    waiting_s: Floats
    mean_waiting_s: Floats
    factor: Floats
    at_bound: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Slowness (step 8), k; `busy` is the load of the last seconds."""

    busy: Floats
    factor: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failures (step 9), k."""

    factor: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart:
    """Slow start (step 10), k: for how long a peer was seen since it came, and is gone now."""

    seen_s: Floats
    gone_s: Floats
    factor: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedWeights:
    """The weights before they are scaled to S (step 11), k, and who is at a bound."""

    weights: Floats
    at_floor: Bools
    at_ceiling: Bools


def weigh_backlog(inputs: Inputs, traffic: Traffic, estimate: Estimate) -> Backlog:
    """Take off what works a backlog down over tau_q (step 7).

    backlog = 1 - clip((D_j - Dm)/tau_q, -0.1, 0.95)     tau_q = max(3 s, T (1 + report age in ticks))
    """
    snapshots, live = inputs.snapshots, traffic.live
    waiting, mean = waiting_s(traffic.in_flight, estimate.capacity, inputs.yardsticks)
    tau_q = max(BACKLOG_SHORTEST_S, snapshots.tick_s * (1 + snapshots.report_age_ticks))
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
    """Take off for being slow although idle, and with evidence that it is so (step 8).

        slow = min(1, kappa median(lat)/lat_j)^((1 - busy_j) ok^2/(ok^2 + 100))

    lat: a usual request's latency; busy = max(l, EWMA_0.2(l)), the load now and of the last seconds; ok:
    requests completed, fading.
    """
    part = min(1.0, BUSY_SMOOTHING_PER_S * inputs.snapshots.tick_s)
    before = inputs.previous["busy"]
    smoothed = np.where(window.matched, before + part * (window.load - before), before)
    busy = np.maximum(smoothed, window.load)
    timed = inputs.yardsticks & (traffic.latency_s > 0)
    timed &= summed(timed) >= 2
    latency_s = np.where(timed, traffic.latency_s, 1.0)
    excess = np.minimum(1.0, inputs.parameters.kappa * median(traffic.latency_s, timed) / latency_s)
    certain = traffic.ok**2 / (traffic.ok**2 + SLOW_PRIOR**2)
    factor = np.where(timed & traffic.live, excess ** ((1.0 - busy) * certain), 1.0)
    return Slowness(busy=smoothed, factor=factor)


def weigh_failures(inputs: Inputs, traffic: Traffic) -> Failures:
    """Take off for failing more than the others (step 9).

        err = min(1, s_j/median s)^3,   s = (ok + 5)/(ok + bad + 5)

    ok, bad: requests completed and failed, fading. Against the median: where all fail alike, none is reduced.
    """
    success = (traffic.ok + FAILURE_PRIOR) / (traffic.ok + traffic.bad + FAILURE_PRIOR)
    typical = np.where(anybody(inputs.yardsticks), median(success, inputs.yardsticks), 1.0)
    return Failures(factor=np.minimum(1.0, success / typical) ** FAILURE_POWER)


def weigh_slow_start(inputs: Inputs, busyness: Busyness) -> SlowStart:
    """Hold a peer that has just come (step 10).

        join = clip((seen/ramp)^(1/aggression), join_min, 1)        Envoy's form;  seen: seconds since it came

    A peer that is out of service, or silent while others are not, will start slowly when it is back.
    """
    snapshots, previous, parameters = inputs.snapshots, inputs.previous, inputs.parameters
    tick_s = snapshots.tick_s
    present = busyness.sampled | (known_or_zero(snapshots.completed) > 0)
    gone_s = np.where(present, 0.0, previous["gone_s"] + tick_s * anybody(present))
    back = snapshots.eligible & (gone_s <= AWAY_S)
    seen_s = np.where(back, previous["seen_s"] + present * tick_s, 0.0)
    if parameters.ramp <= 0:
        return SlowStart(seen_s=seen_s, gone_s=gone_s, factor=np.ones(seen_s.shape))
    passed: Floats = clip(seen_s / parameters.ramp, 0.0, 1.0) ** (1.0 / parameters.aggression)
    return SlowStart(seen_s=seen_s, gone_s=gone_s, factor=clip(passed, parameters.join_min, 1.0))


def bound_weights(inputs: Inputs, weight: Floats) -> BoundedWeights:
    """Keep the weights within bounds of the baseline (step 11).

    ln(W_j/W_Sj) clipped to [ln m_min, z_max]        W_j: `weight`, scaled to S as the baselines W_S are
    """
    baseline, parameters = inputs.baseline, inputs.parameters
    log_ratio = np.log(weight * (inputs.total / summed(weight)) / baseline) if inputs.snapshots.k else weight
    clipped = clip(log_ratio, log(parameters.m_min), parameters.z_max)
    return BoundedWeights(
        weights=baseline * np.exp(clipped), at_floor=log_ratio < clipped, at_ceiling=log_ratio > clipped
    )
