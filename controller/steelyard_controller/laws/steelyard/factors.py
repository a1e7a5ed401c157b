"""The factors of a capacity, and the bounds of the product (steps 8 to 10 and 12). Pure.

Slow start, step 11, is in `slow_start`.
"""

from dataclasses import dataclass
from math import log

import numpy as np

from steelyard_controller.laws.small_arrays import clip, median_of_others, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.capacity_estimate import Estimate
from steelyard_controller.laws.steelyard.in_flight import PATIENCE_DURATIONS, InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import waiting_s
from steelyard_controller.laws.steelyard.paired_window import Window
from steelyard_controller.laws.steelyard.traffic import Traffic

# Largest additions to and deductions from a weight for a backlog, and the shortest time to work it off.
BACKLOG_ADDED_MAX, BACKLOG_TAKEN_MAX = 0.1, 0.95
BACKLOG_SHORTEST_S = 3.0
# A new window's part in `busy`: slowness is judged by the load of the last five seconds.
BUSY_SMOOTHING_PER_S = 0.2
# Requests counted as successful beforehand, so that few failures do not make a large ratio.
FAILURE_PRIOR = 5.0
# With half of the requests failing, an eighth of the weight remains.
FAILURE_POWER = 3.0


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

        slow = min(1, kappa median_i(lat_i)/lat_j)^((1 - busy_j) ok^2/(ok^2 + n0^2))

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
    if not _may_be_slow(latency_s, timed, inputs.parameters.kappa):
        return Slowness(busy=smoothed, factor=np.ones(busy.shape))
    typical = median_of_others(traffic.latency_s, timed)
    excess = np.where(timed, np.minimum(1.0, inputs.parameters.kappa * typical / latency_s), 1.0)
    # A single slow request, a hundred times the median, takes 3 % off; thirty count fully.
    certain = traffic.ok**2 / (traffic.ok**2 + inputs.parameters.n0**2)
    factor = np.where(timed & traffic.live, excess ** ((1.0 - busy) * certain), 1.0)
    return Slowness(busy=smoothed, factor=factor)


def _may_be_slow(latency_s: Floats, timed: Bools, kappa: float) -> bool:
    """Return whether a peer exceeds the least latency by kappa, as one that exceeds the median does."""
    least = np.minimum.reduce(latency_s, axis=-1, keepdims=True, where=timed, initial=np.inf)
    return bool((timed & (latency_s > kappa * least)).any())


def weigh_failures(inputs: Inputs, traffic: Traffic) -> Failures:
    """Reduce the weight of a peer that fails more than the others (step 10).

        err = min(1, success_j/median_i(success_i))^3,   success = (ok + 5)/(ok + bad + 5)

    i: the others; ok, bad: requests completed and failed, fading. If all fail alike, none is reduced.
    """
    if not traffic.bad.any():
        return Failures(factor=np.ones(traffic.bad.shape))
    success = (traffic.ok + FAILURE_PRIOR) / (traffic.ok + traffic.bad + FAILURE_PRIOR)
    typical = median_of_others(success, inputs.yardsticks)
    return Failures(factor=np.fmin(1.0, success / typical) ** FAILURE_POWER)


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
