"""The cost of a request, apart from load that is not ours, and the capacity that follows (step 7). Pure.

Sums are k x 4, or k x 3 without the last: requests A, load seconds B, seconds D, seconds full F.
"""

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, median, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.contrast import Known
from steelyard_controller.laws.steelyard.evidence import (
    BUSY,
    COST_MAX,
    COST_MIN,
    FADED,
    FULL_SECONDS,
    IDLE_LOAD,
    REQUESTS,
    SECONDS,
    YOUNG_WINDOWS,
)
from steelyard_controller.laws.steelyard.steelyard_parameters import SteelyardParameters

# The cost is the lower edge of observed costs, because others' work only adds to it. If it rose sooner, a
# neighbour of some minutes would end as more expensive requests, and the server would starve after all.
COST_DOWN_PER_S, COST_UP_PER_S = 0.1, 1 / 100
# Upper bound, so that each peer keeps some capacity; the law's floor is a separate bound.
MOST_NOT_OURS = 0.98


def split(sums: Floats, known: Known, l0: float) -> tuple[Floats, Floats]:
    """Return e, load seconds a request, and w, load that is not ours; k each, e NaN where no cost is known.

        x       = cost A/D,  extra = B/D - x             the load that the known cost explains, and the rest
        w_1     = min(w_0 (1 - F/D), max(extra, 0))      the part of the rest that is known not to be ours
        new     = extra - w_1                            the part that was not expected
        dearer  = x^2/(x^2 + l0^2)
        dearer += contrast (clip((y_1 - cost)/(cost new/x), 0, 1) - dearer);   at least F/D; at most e = most
        extra > 0:   w = w_1 + (1 - dearer) new,  e = cost (1 + dearer new/x)
        extra <= 0:  w = 0,                       e = cost (B/D + r0)/(x + r0)        r0: `IDLE_LOAD`

    Unexpected load comes from more expensive requests or from somebody else's work; `dearer` is the part that
    is taken for more expensive requests. One window cannot distinguish them. At a large load of our own, more
    expensive requests are likelier; at a small one, somebody else's work is. Windows with different numbers
    of requests do distinguish them (w_0, contrast, y_1 and most: `Known`).
    `sums` may have rows of such tables; so have the results.
    """
    price = np.where(np.isnan(known.cost), 1.0, known.cost)
    seconds = np.maximum(sums[..., SECONDS], FADED)
    load = sums[..., BUSY] / seconds
    x = sums[..., REQUESTS] / seconds * price
    extra = load - x
    full = np.minimum(sums[..., FULL_SECONDS] / seconds, 1.0)
    others = np.minimum(known.others * (1.0 - full), np.maximum(extra, 0.0))
    unexpected, x_squared = extra - others, x * x
    unexpected_part = unexpected / np.maximum(x, FADED)
    divisor = np.maximum(unexpected_part, FADED)
    dearer_part = x_squared / (x_squared + l0 * l0)
    marginal_part = clip((known.surely / price - 1.0) / divisor, 0.0, 1.0)
    dearer_part = np.maximum(dearer_part + known.contrast * (marginal_part - dearer_part), full)
    largest_part = np.maximum(known.most / price - 1.0, 0.0) / divisor
    dearer_part = np.minimum(dearer_part, largest_part)
    dearer = 1.0 + dearer_part * unexpected_part
    cheaper = (load + IDLE_LOAD) / (x + IDLE_LOAD)
    ratio = np.where(sums[..., REQUESTS] > FADED, np.where(extra > 0, dearer, cheaper), 1.0)
    not_ours = clip(others + (1.0 - dearer_part) * unexpected, 0.0, MOST_NOT_OURS)
    return clip(known.cost * ratio, COST_MIN, COST_MAX), not_ours


def prior_cost(cost: Floats, rate: Floats, ours: Floats, baseline: Floats) -> Floats:
    """Return cost_0, the expected cost of a request, k, from peers with a known cost and the baselines.

        cost_0_j = median_i(cost_i W_Si)/W_Sj          i: peers with a known cost
                   sum(ours W_S)/sum(rate)/W_Sj        without any: peers with a first window

    W_S: baseline; rate: requests per second; ours: our load.
    """
    known = ~np.isnan(cost)
    per_weight = quotient(summed(rate), summed(ours * baseline), 1.0)
    per_weight = np.where(anybody(known), 1.0 / median(cost * baseline, known), per_weight)
    return clip(1.0 / (per_weight * baseline), COST_MIN, COST_MAX)


def learnt_cost(
    known: Known,
    prior: Floats,
    sums: Floats,
    windows: Floats,
    seen: Bools,
    tick_s: float,
    parameters: SteelyardParameters,
) -> Floats:
    """Return the peers' cost after a window: the observed one at first, later a slow average, faster down.

        first 10 windows:  cost = (B/D + r0)/(A/D + r0/cost_0)
        then:              ln cost += g ln(e/cost)

    g is 0.1 T down and T/100 x^2/(x^2 + l0^2) up (x, e: see `split`). It is 0 if the peer was mostly full,
    because its load was then inferred from the queue. It is also 0 if x < r0, because below the noise a
    request would seem to cost nothing.
    """
    seconds = np.maximum(sums[..., SECONDS], FADED)
    load, rate = sums[..., BUSY] / seconds, sums[..., REQUESTS] / seconds
    first = (load + IDLE_LOAD) / (rate + IDLE_LOAD / prior)
    cost, l0 = known.cost, parameters.l0
    e, _ = split(sums, known, l0)
    x = rate * cost
    log_ratio = np.log(e / cost)
    gain = np.where(log_ratio < 0, COST_DOWN_PER_S, COST_UP_PER_S * x * x / (x * x + l0**2)) * tick_s
    is_unclear = (sums[..., FULL_SECONDS] > 0.5 * seconds) | (x < IDLE_LOAD)
    gain = np.where(is_unclear, 0.0, np.minimum(gain, 1.0))
    learnt = np.where(windows <= YOUNG_WINDOWS, first, cost * np.exp(gain * log_ratio))
    return np.where(seen & (sums[..., REQUESTS] > FADED), clip(learnt, COST_MIN, COST_MAX), cost)


def prior_worth(cost: Floats, parameters: SteelyardParameters) -> Floats:
    """Return n0', k: the worth of the prior in requests, n0, but at most p0 load seconds of them.

    One request that takes ten seconds of a server shows more than ten requests of 4 ms.
    """
    return np.fmin(parameters.n0, parameters.p0 / cost)


def capacity(e: Floats, w: Floats, requests: Floats, baseline: Floats, worth: Floats) -> Floats:
    """Return c, k: requests per second, shrunk towards the baseline by the prior.

        c     = (1 - w)/e                               the load it carries plus that of its leftover
        ln c' = t ln c + (1 - t) ln(G W_S)              t = A'/(A' + n0')
        G     = sum(t c)/sum(t W_S)                     requests per second of a unit of baseline

    e, w: from `split`; A': `requests`; n0': `worth`, from `prior_worth`. Without a request, the load is
    somebody else's and shows no cost: c is then the baseline. So it is once the last request has faded.
    """
    known = ~np.isnan(e) & (requests > FADED)
    own = np.where(known, (1.0 - w) / np.where(known, e, 1.0), 1.0)
    trust = np.where(known, requests / (requests + worth), 0.0)
    per_weight = quotient(summed(trust * own), summed(trust * baseline), 1.0)
    blended = np.exp(trust * np.log(own) + (1.0 - trust) * np.log(per_weight * baseline))
    return np.where(anybody(known), blended, baseline)
