"""The contrast between windows with more and with fewer requests, and the cost it shows (step 7). Pure.

Unexpected load comes from more expensive requests or from somebody else's work. One window cannot distinguish
them. Two windows with different numbers of requests can: the load of more expensive requests changes with
their number, and somebody else's load stays.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from steelyard_controller.laws.small_arrays import clip, known_or_zero
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.evidence import (
    BUSY,
    COST_MAX,
    COST_MIN,
    FADED,
    FULL_SECONDS,
    IDLE_LOAD,
    LOAD_SQUARED,
    RATE_LOAD,
    RATE_SQUARED,
    REQUESTS,
    SECONDS,
    YOUNG_WINDOWS,
    Evidence,
)
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.paired_window import PHASE_PART

# This part of the scatter by chance shows nothing.
CHANCE_PART = 0.75
# Time in which a finding is kept in the cost and in w_0.
LEARNING_S = 2.0


class Statistics(NamedTuple):
    """Means over the windows since a restart, k each."""

    rate: Floats
    load: Floats
    rate_variance: Floats
    load_variance: Floats
    covariance: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Findings about whose a peer's load is; k each.

    statistics   those of the windows from which the findings follow
    cost       load seconds of a request without neighbours; NaN before the first
    others     w_0, load that is known not to be ours
    contrast   0..1, difference of the numbers of requests, beyond chance and windows that begin apart
    marginal   y, load seconds that one further request has taken
    surely     y_1, those that it has taken at least: y less its error
    most       largest cost with which the windows' loads agree; huge without a scatter of requests
    distinguished   number of requests of known cost that would show the cost as well as y does
    """

    statistics: Statistics
    cost: Floats
    others: Floats
    contrast: Floats
    marginal: Floats
    surely: Floats
    most: Floats
    distinguished: Floats


def statistics_of(moments: Floats) -> Statistics:
    """Return the means of rate and load, their variances and their covariance from the fading sums."""
    of_each = moments / np.maximum(moments[..., SECONDS : SECONDS + 1], FADED)
    rate, load = of_each[..., REQUESTS], of_each[..., BUSY]
    return Statistics(
        rate=rate,
        load=load,
        rate_variance=np.maximum(of_each[..., RATE_SQUARED] - rate * rate, 0.0),
        load_variance=np.maximum(of_each[..., LOAD_SQUARED] - load * load, 0.0),
        covariance=of_each[..., RATE_LOAD] - rate * load,
    )


def known_of(inputs: Inputs, evidence: Evidence, in_flight: InFlight) -> Known:
    """Return the findings from the windows since a restart.

        v        = [rate^2] - [rate]^2,   y = ([rate l] - [rate] [l])/v
        contrast = max(0, v - 3/4 [rate]/T)/(v + (eps [rate])^2)/(1 + (d/T_1)^2)    0 in the first 10 windows
        left     = variance of l that y leaves + r0^2
        y_1      = y - sqrt(max(left, disp [rate]/T cost^2)/(v windows))
        error    = sqrt(left/(v (windows - 10)))
        most     = 2 (1 + (d/T_1)^2)/(1 - F/D) (|y| + h_hot error)

    rate, l: rate of requests and load of a window; [ ]: their means, from `Evidence.moments`. Chance makes a
    variance of [rate]/T. If windows begin apart, load and rate do not agree on the larger part of it. Half a
    window apart takes half of y, longer requests take more of it, and full windows show none. If y is below
    0, something else changed meanwhile, and the bound is as much wider.
    y agrees with any two windows. So chance in the costs of requests (disp) is its least error.
    """
    statistics = statistics_of(evidence.moments)
    rate, variance, covariance = statistics.rate, statistics.rate_variance, statistics.covariance
    by_chance = CHANCE_PART * rate / inputs.snapshots.tick_s
    differed = np.where(evidence.windows > YOUNG_WINDOWS, np.maximum(variance - by_chance, 0.0), 0.0)
    differed /= np.maximum(variance + (inputs.parameters.eps * rate) ** 2, FADED)
    # A request longer than a window has its load in other windows than its count.
    blurred = 1.0 + (in_flight.known_duration_s / inputs.window_s) ** 2
    marginal = covariance / np.maximum(variance, FADED)
    windows = evidence.moments[..., SECONDS] / inputs.window_s
    unexplained = np.maximum(statistics.load_variance - marginal * covariance, 0.0) + IDLE_LOAD**2
    of_requests = evidence.dispersion * rate / inputs.snapshots.tick_s * known_or_zero(evidence.cost) ** 2
    chance = np.sqrt(np.maximum(unexplained, of_requests) / np.maximum(windows * variance, FADED))
    older = np.maximum(windows - YOUNG_WINDOWS, 0.0)
    error = np.sqrt(unexplained / np.maximum(older * variance, FADED))
    measured = 1.0 - evidence.sums[..., FULL_SECONDS] / np.maximum(evidence.sums[..., SECONDS], FADED)
    # If sample and report begin half a window apart, y is half of the cost.
    # Chance exceeds three errors once in 700 times.
    errors = inputs.parameters.h_hot
    most = blurred / PHASE_PART * (np.abs(marginal) + errors * error)
    return Known(
        statistics=statistics,
        cost=evidence.cost,
        others=evidence.others,
        contrast=differed / blurred,
        marginal=marginal,
        surely=marginal - chance,
        most=most / np.maximum(measured, FADED),
        distinguished=np.maximum(marginal / error - errors, 0.0) ** 2,
    )


def with_findings_kept(known: Known, sums: Floats, seen: Bools, tick_s: float) -> Known:
    """Return the findings after a window, with those of the contrast kept in the cost and in w_0.

        cost   at most `most`; what that takes of the explained load is added to w_0
        u'     = max(0, B/D - cost A/D - w_0)                    unexpected load
        e'     = clip(y_1, cost, cost + u' D/A)                  its part of more expensive requests, surely
        y'     = clip(y, cost, cost + u' D/A)
        cost  *= (e'/cost)^g',   w_0 += g' (u' - (y' - cost) A/D)    g' = min(1, T contrast/2 s)
        w_0    at most max(0, B/D - cost A/D)

    Once the weights settle, all windows are alike and show no contrast: load whose origin was not kept would
    be divided anew at each tick. A peer that was mostly full learns nothing.
    """
    seconds = np.maximum(sums[..., SECONDS], FADED)
    rate, load = np.maximum(sums[..., REQUESTS] / seconds, FADED), sums[..., BUSY] / seconds
    possible = np.minimum(known.cost, known.most)
    known_others = known.others + (known.cost - possible) * rate
    unexpected = np.maximum(load - rate * possible - known_others, 0.0)
    dearest = possible + unexpected / rate
    dearer, likely = (
        np.maximum(np.minimum(each, dearest), possible) for each in (known.surely, known.marginal)
    )
    gain = np.minimum(tick_s / LEARNING_S * known.contrast, 1.0)
    others = known_others + gain * (unexpected - (likely - possible) * rate)
    cost = clip(possible * (dearer / possible) ** gain, COST_MIN, COST_MAX)
    learns = seen & (sums[..., FULL_SECONDS] <= 0.5 * seconds)
    others = np.maximum(np.minimum(others, load - rate * cost), 0.0)
    return replace(
        known, cost=np.where(learns, cost, known.cost), others=np.where(learns, others, known.others)
    )
