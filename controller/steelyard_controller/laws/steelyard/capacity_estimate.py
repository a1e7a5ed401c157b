"""The capacity estimate of each peer: what a request costs it, and what load is not ours (steps 3 to 5).

Pure. Load is in parts of the peer's tightest resource: l of a window, and n requests in it.

    ours  l where l < 0.95. A fuller peer may be full of somebody else's work; what is ours of it then is
          what its cost explains, or its requests in flight say:  L/(L + L_half),  L = n lat / T (Little)
          L_half   EWMA_0.1 of the median, over peers that are not full, of L (1 - rho)/rho, rho = n e/(1 - w)
    A, B, D, F   sums of requests, load seconds, seconds, and seconds full; all fade with tau
    x     = cost A/D,   d = B/D - x                what the known cost explains, and what it does not
    d > 0:  w = (1 - a) d,  e = cost (1 + a d/x)   a = max(x^2/(x^2 + l0^2), F/D)
    d <= 0: w = 0,          e = cost (B/D + r0)/(x + r0)
    c     = (1 - w)/e                              what it carries plus what its leftover can carry
    z     = |b - a e - s w| / sqrt(a (1 + a/A) disp e^2 + (eps (a e + s w))^2 + (r0 s)^2 + (e m/2)^2)
            the largest over the last 1, 2, 4 and 8 windows, e and w of the evidence from before them.
            b too large: the windows end now, m = 0. b too small: they end one window ago, and m is by
            how many requests the first differs from the one after, or the last from the one before
    z > h (1 + J):  A, B, D, F = those windows';  J += 1;  J fades with 10 s
            also where F > D/2, l < 0.8, n < 5 and x < 1/2: whoever filled it has gone
            where F > D/2 and l < 0.8, B is A cost where that is below B/4: it went within the window
    cost  first 10 windows: (B/D + r0)/(A/D + r0/cost_0), cost_0 what the others' cost and the baselines say;
          then ln cost += g ln(e/cost), g = 0.1 T down, a T/100 up, 0 where F > D/2
"""

from dataclasses import dataclass, replace
from math import exp

import numpy as np

from steelyard_controller.laws.small_arrays import anybody, clip, median, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats, Ints
from steelyard_controller.laws.steelyard.change_detection import (
    FEWEST_REQUESTS,
    contradiction,
    dispersion_after,
    last_windows,
)
from steelyard_controller.laws.steelyard.request_cost import (
    BUSY,
    COST_MAX,
    COST_MIN,
    FADED,
    FULL_SECONDS,
    REQUESTS,
    SECONDS,
    YOUNG_WINDOWS,
    learnt_cost,
    prior_cost,
    split,
)
from steelyard_controller.laws.steelyard.steelyard_parameters import SteelyardParameters

# A load from here on may be anybody's: no resource can say more than "full".
FULL = 0.95
# A peer that was full of somebody else's work and now has this much less load is free again.
FREE = 0.8
# A load of which our requests explain less than this part is mostly somebody else's.
MOSTLY_OTHERS = 0.25
# The change test of a peer that has become free: what was known of it rested on queues.
FREE_SIGMA = 1.5
# A restart makes the test less eager for a while, not deaf: what was lost may come back soon.
RESTARTS_FADE_S = 10.0
# The queue of a peer at half load: about 1 in theory (M/M/1), less behind a picker that looks.
HALF_LOAD_PART = 0.1
HALF_LOAD_MIN, HALF_LOAD_MAX = 0.1, 10.0
LEAST_OURS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of m upstreams of k peers.

    sums       k x 4: requests, load seconds, seconds, seconds full; since the last restart, fading
    recent     k x 3 RECENT_WINDOWS: requests, load seconds and seconds of each of the last windows
    requests   k, fading, restarts or not: what the prior is weighed against
    cost       k, load seconds a request takes where nobody else is; NaN before the first
    windows    k, windows with requests that the cost was learnt from
    jumps      k, restarts, fading
    dispersion, in_flight_at_half   m x 1, disp and L_half
    """

    sums: Floats
    recent: Floats
    requests: Floats
    cost: Floats
    windows: Floats
    jumps: Floats
    dispersion: Floats
    in_flight_at_half: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The evidence after a tick, the capacity estimated from it, and the result of the change test."""

    evidence: Evidence
    capacity: Floats
    not_ours: Floats
    own_load: Floats
    z: Floats
    restarted: Bools


def rescaled(evidence: Evidence, ratio: Floats) -> Evidence:
    """Return the evidence after the peers' limits changed: a load is `ratio` (k) times what it was."""
    if (ratio == 1.0).all():
        return evidence
    sums, recent = evidence.sums.copy(), evidence.recent.copy()
    sums[..., BUSY] *= ratio
    recent[..., BUSY::3] *= ratio[..., None]
    cost = clip(evidence.cost * ratio, COST_MIN, COST_MAX)
    return replace(evidence, sums=sums, recent=recent, cost=cost)


def capacity(evidence: Evidence, baseline: Floats, parameters: SteelyardParameters) -> Floats:
    """Return c, k: requests per second, shrunk towards the baseline by a prior worth n0 requests.

    Without a request the load is somebody else's and tells nothing about the cost of one: c is then the
    baseline. So it is when the last request has faded away.
    """
    return _capacity(
        *split(evidence.sums, evidence.cost, parameters.l0), evidence.requests, baseline, parameters
    )


def _capacity(
    cost: Floats, not_ours: Floats, requests: Floats, baseline: Floats, parameters: SteelyardParameters
) -> Floats:
    known = ~np.isnan(cost) & (requests > FADED)
    own = np.where(known, (1.0 - not_ours) / np.where(known, cost, 1.0), 1.0)
    trust = np.where(known, requests / (requests + parameters.n0), 0.0)
    per_weight = quotient(summed(trust * own), summed(trust * baseline), 1.0)
    blended = np.exp(trust * np.log(own) + (1.0 - trust) * np.log(per_weight * baseline))
    return np.where(anybody(known), blended, baseline)


def learn(
    evidence: Evidence,
    *,
    matched: Bools,
    load: Floats,
    count: Floats,
    in_flight: Floats,
    waiting: Floats,
    hot: Bools,
    baseline: Floats,
    tick: Ints,
    tick_s: float,
    parameters: SteelyardParameters,
) -> Estimate:
    """Take in the matched windows, then test for change.

    load, count, in_flight (L, the mean over the window) and waiting (0..1: how much of a backlog there is,
    which means busy whatever the sample says) are 0 where not matched.
    """
    blocked = matched & (waiting > load)
    load = np.maximum(load, waiting)
    full = matched & (load >= FULL)
    queued = np.maximum(LEAST_OURS, in_flight / (in_flight + evidence.in_flight_at_half))
    explained = np.where(np.isnan(evidence.cost), 1.0, np.minimum(count / tick_s * evidence.cost, 1.0))
    ours = np.where(full & ~blocked & (in_flight > 0), np.maximum(queued, explained), load)
    # Full, and not a request of ours: nothing can be said of it.
    seen = matched & ~(full & (count < 1.0))
    window = np.empty((*count.shape, 3))
    window[..., REQUESTS], window[..., BUSY], window[..., SECONDS] = count, ours * tick_s, tick_s
    window *= seen[..., None]
    fresh = np.isnan(evidence.cost) & seen & (count > 0) & (ours > 0)
    prior = prior_cost(evidence.cost, count / tick_s * fresh, ours * fresh, baseline)
    cost = np.where(fresh, prior, evidence.cost)
    known = ~np.isnan(cost)

    # What the evidence before this window expects of it.
    before = np.where(fresh[..., None], 0.0, evidence.sums)
    e, w = split(before, cost, parameters.l0)
    telling = seen & known & ~full & (count >= FEWEST_REQUESTS)
    half = _at_half(evidence.in_flight_at_half, telling, in_flight, count / tick_s * e / (1.0 - w))
    recent = np.concatenate((evidence.recent[..., 3:], window), axis=-1)
    fade = exp(-tick_s / parameters.tau)
    tested = seen & known & (before[..., SECONDS] > 0)
    freed = tested & (load < FREE) & (before[..., FULL_SECONDS] > 0.5 * before[..., SECONDS])
    z, begun = contradiction(recent, before, cost, freed, evidence.dispersion, tick, fade, parameters)
    z = np.where(tested, z, 0.0)
    threshold = np.where(hot, parameters.h_hot, parameters.h_cold) * (1.0 + evidence.jumps)
    # Of a peer that was full of others' work, idleness alone is news: there may be no request to tell.
    rate_before = before[..., REQUESTS] / np.maximum(before[..., SECONDS], FADED)
    others = freed & (count < FEWEST_REQUESTS) & (rate_before * np.where(known, cost, 1.0) < 0.5)
    restarted = others | (z > np.where(freed, FREE_SIGMA, threshold))
    after_change, best = last_windows(recent, np.where(freed, 1, begun))
    recent = np.where(restarted[..., None], after_change, recent)
    # Whoever filled it may have left within this window: where our requests explain hardly any of its load,
    # the rest is over. If it is not, the next window says so at once.
    explained_s = best[..., REQUESTS] * np.where(known, cost, 1.0)
    left = freed & (explained_s < MOSTLY_OTHERS * best[..., BUSY])
    best[..., BUSY] = np.where(left, explained_s, best[..., BUSY])
    dispersion = dispersion_after(
        evidence.dispersion, telling & tested & ~restarted, recent, e, w, min(1.0, parameters.beta * tick_s)
    )

    full = full | blocked
    sums = before * np.where(seen, fade, 1.0)[..., None]
    sums[..., :FULL_SECONDS] += window
    sums[..., FULL_SECONDS] += np.where(full & seen, tick_s, 0.0)
    if restarted.any():
        sums[restarted, :FULL_SECONDS] = best[restarted]
        sums[restarted, FULL_SECONDS] = np.where(full, best[..., SECONDS], 0.0)[restarted]
    windows = evidence.windows + (seen & (count > 0))
    cost = learnt_cost(cost, prior, sums, windows, known & seen, parameters, tick_s)
    after = Evidence(
        sums=sums,
        recent=recent,
        requests=evidence.requests * fade + np.where(seen, count, 0.0),
        cost=cost,
        windows=np.minimum(windows, 2 * YOUNG_WINDOWS),
        jumps=evidence.jumps * exp(-tick_s / RESTARTS_FADE_S) + restarted,
        dispersion=dispersion,
        in_flight_at_half=half,
    )
    e, not_ours = split(sums, cost, parameters.l0)
    return Estimate(
        evidence=after,
        capacity=_capacity(e, not_ours, after.requests, baseline, parameters),
        not_ours=not_ours,
        own_load=ours,
        z=z,
        restarted=restarted,
    )


def _at_half(before: Floats, telling: Bools, in_flight: Floats, rho: Floats) -> Floats:
    """Return L_half, m x 1, after a window."""
    rho = clip(rho, LEAST_OURS, FULL)
    now = clip(median(in_flight * (1.0 - rho) / rho, telling), HALF_LOAD_MIN, HALF_LOAD_MAX)
    return np.where(np.isnan(now), before, before + HALF_LOAD_PART * (now - before))
