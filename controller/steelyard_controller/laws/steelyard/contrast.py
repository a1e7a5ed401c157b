"""What windows with more and with fewer requests tell of the cost of one (step 7). Pure.

A load that nobody expected is dearer requests or somebody else's work. One window cannot tell; two in which a
peer got different numbers of requests can: what a dearer request costs goes with the requests, what somebody
else takes stays.
"""

from dataclasses import dataclass, replace

import numpy as np

from steelyard_controller.laws.small_arrays import clip
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.evidence import (
    BUSY,
    COST_MAX,
    COST_MIN,
    FADED,
    FULL_SECONDS,
    REQUESTS,
    SECONDS,
    YOUNG_WINDOWS,
    Evidence,
)
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs

# Of what chance makes of numbers of requests, this part tells nothing.
CHANCE_PART = 0.75
# What is told is kept so soon.
TOLD_S = 2.0
# A request that takes longer than this has its load in other windows than its count.
SHORT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What tells whose a peer's load is; k each.

    cost       load seconds a request takes where nobody else is; NaN before the first
    others     w_0, load that is known not to be ours
    contrast   told, 0..1: how far the numbers of requests differed, beyond what chance and windows that begin
               apart make of them
    marginal   y, load seconds that a request more has taken there
    """

    cost: Floats
    others: Floats
    contrast: Floats
    marginal: Floats


def means(moments: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the means of rate, load, rate squared, and rate times load; k each."""
    of_each = moments / np.maximum(moments[..., SECONDS : SECONDS + 1], FADED)
    return of_each[..., REQUESTS], of_each[..., BUSY], of_each[..., -2], of_each[..., -1]


def known_of(inputs: Inputs, evidence: Evidence, in_flight: InFlight) -> Known:
    """Return what is known of whose load it is, from the windows since a restart.

        v    = [r^2] - [r]^2,   y = ([r l] - [r] [l])/v
        told = max(0, v - 3/4 [r]/T)/(v + (eps [r])^2)/(1 + (d/1 s)^2)        0 in the first 10 windows

    r, l: rate of requests and load of a window; [ ]: their means, of `Evidence.moments`. Chance makes a
    variance of [r]/T, and load and rate do not agree on the larger part of it where windows begin apart.
    """
    rate, load, squares, products = means(evidence.moments)
    variance = np.maximum(squares - rate * rate, 0.0)
    covariance = products - rate * load
    by_chance = CHANCE_PART * rate / inputs.snapshots.tick_s
    differed = np.where(evidence.windows > YOUNG_WINDOWS, np.maximum(variance - by_chance, 0.0), 0.0)
    differed /= np.maximum(variance + (inputs.parameters.eps * rate) ** 2, FADED)
    return Known(
        cost=evidence.cost,
        others=evidence.others,
        contrast=differed / (1.0 + (in_flight.known_duration_s / SHORT_S) ** 2),
        marginal=covariance / np.maximum(variance, FADED),
    )


def told(known: Known, sums: Floats, seen: Bools, tick_s: float) -> Known:
    """Return what is known after a window: what windows with more and with fewer requests have told is kept.

        u      = max(0, B/D - cost A/D - w_0)                  what nobody expected
        e      = clip(y, cost, cost + u D/A)                   what of it is dearer requests
        cost  *= (e/cost)^g,   w_0 += g (u - (e - cost) A/D)   g = min(1, T told/2 s)
        w_0    at most max(0, B/D - cost A/D)

    Where windows are all alike again, as they are once the weights stand, they tell no more: what was not
    kept would be divided anew at each tick. Of a peer that was mostly full nothing is learnt.
    """
    seconds = np.maximum(sums[..., SECONDS], FADED)
    rate, load = np.maximum(sums[..., REQUESTS] / seconds, FADED), sums[..., BUSY] / seconds
    unexpected = np.maximum(load - rate * known.cost - known.others, 0.0)
    dearer = np.maximum(np.minimum(known.marginal, known.cost + unexpected / rate), known.cost)
    gain = np.minimum(tick_s / TOLD_S * known.contrast, 1.0)
    others = known.others + gain * (unexpected - (dearer - known.cost) * rate)
    cost = clip(known.cost * (dearer / known.cost) ** gain, COST_MIN, COST_MAX)
    learns = seen & (sums[..., FULL_SECONDS] <= 0.5 * seconds)
    others = np.maximum(np.minimum(others, load - rate * cost), 0.0)
    return replace(
        known, cost=np.where(learns, cost, known.cost), others=np.where(learns, others, known.others)
    )
