"""The capacity estimate: the evidence with the new window, and the capacity from it (step 7). Pure."""

from dataclasses import dataclass, replace
from math import exp

import numpy as np

from steelyard_controller.laws.small_arrays import clip, known_or_zero
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.busyness import Busyness, tightest
from steelyard_controller.laws.steelyard.change_detection import Change
from steelyard_controller.laws.steelyard.contrast import Known, known_of, with_findings_kept
from steelyard_controller.laws.steelyard.evidence import (
    FULL_SECONDS,
    IDLE_LOAD,
    REQUESTS,
    SECONDS,
    YOUNG_WINDOWS,
    Evidence,
)
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.own_load import OwnLoad
from steelyard_controller.laws.steelyard.request_cost import capacity, learnt_cost, prior_worth, split
from steelyard_controller.laws.steelyard.steelyard_parameters import REMEMBERED_S

# A restart makes the test less eager, but only for a while: lost capacity may come back soon.
RESTARTS_FADE_S = 10.0
# Smallest free part of a server without requests, and the load from which it is below 1.
SMALLEST_FREE, FREE_UP_TO_LOAD = 0.1, 0.5
# If a cost is refuted, a tenth less of it takes half of A', and half of it takes all.
REFUTED_POWER = 8.0
# Part of the load from which others' counts. With less, the cost is wrong by less than that in any case.
OTHERS_PART = 0.2
# A load rises if it exceeds its mean by more than this many standard deviations.
RISE_SIGMA = 2.0
# No server does more. The square of a broken report's rate would exceed the bounds of a memory.
MOST_PER_S = 1e7


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The evidence after a window, and its results, k each: c, and w, the load that is not ours."""

    evidence: Evidence
    capacity: Floats
    not_ours: Floats


def estimate_capacity(
    inputs: Inputs, busyness: Busyness, in_flight: InFlight, own: OwnLoad, change: Change
) -> Estimate:
    """Add the window to the evidence, and estimate the capacity (step 7).

    A, B, D, F   fade with tau, plus requests, load seconds, seconds and full seconds of the window;
                 after a change, they are those of the windows since. An inferred load counts as full
    A'           see `_requests_after`
    J            fades with 10 s, plus 1 for a change
    """
    before, parameters, tick_s = own.evidence, inputs.parameters, inputs.snapshots.tick_s
    fade = exp(-tick_s / parameters.tau)
    count = own.window[..., REQUESTS]
    indirect = own.full | own.inferred
    sums = before.sums * np.where(own.seen, fade, 1.0)[..., None]
    sums[..., :FULL_SECONDS] += own.window
    sums[..., FULL_SECONDS] += np.where(indirect & own.seen, tick_s, 0.0)
    moments = _moments_after(own, change.restarted, fade, tick_s)
    if change.restarted.any():
        restarted = change.restarted
        sums[restarted, :FULL_SECONDS] = change.since[restarted]
        sums[restarted, FULL_SECONDS] = np.where(indirect, change.since[..., SECONDS], 0.0)[restarted]
    windows = before.windows + (count > 0) * inputs.window_part
    evidence = replace(before, sums=sums, moments=moments)
    known = known_of(inputs, evidence, in_flight)
    learns = ~np.isnan(before.cost) & own.seen
    cost = learnt_cost(known, own.prior, sums, windows, learns, tick_s, parameters)
    known = with_findings_kept(replace(known, cost=cost), sums, learns, tick_s)
    cost = known.cost
    evidence = replace(
        evidence,
        others=known.others,
        recent=change.recent,
        requests=_requests_after(own, known, count, tick_s),
        cost=cost,
        windows=np.minimum(windows, 2 * YOUNG_WINDOWS),
        jumps=before.jumps * exp(-tick_s / RESTARTS_FADE_S) + change.restarted,
        restarts=before.restarts + change.restarted,
        dispersion=change.dispersion,
    )
    e, w = split(sums, known, parameters.l0)
    free, unknown = inputs.baseline, np.isnan(cost)
    if unknown.any():
        free = free * np.where(unknown, _free(busyness, in_flight, before.in_flight_at_half), 1.0)
    able = capacity(e, w, evidence.requests, free, prior_worth(cost, parameters))
    return Estimate(evidence=evidence, capacity=able, not_ours=w)


def _requests_after(own: OwnLoad, known: Known, count: Floats, tick_s: float) -> Floats:
    """Return A' after a window: the requests that told the cost.

        A' fades with 4 h, plus n x^2/(x^2 + r0^2), with or without a change        x: the load of n
        refuted cost     A' *= (cost now/cost before)^8
        w_0 > r0 + l/5   A' grows up to max(0, y/error - h_hot)^2 only               l: mean load

    Beside others' load, requests tell the cost only as far as the load has followed their number.
    """
    before = own.evidence
    refuted = before.cost > known.most
    kept = before.requests * exp(-tick_s / REMEMBERED_S)
    if refuted.any():
        kept *= np.where(refuted, np.fmin(known.cost / before.cost, 1.0), 1.0) ** REFUTED_POWER
    requests = kept + count * _information(count / tick_s * known.cost)
    beside_others = known.others > IDLE_LOAD + OTHERS_PART * own.known.statistics.load
    return np.where(beside_others, np.maximum(kept, np.minimum(requests, known.distinguished)), requests)


def _moments_after(own: OwnLoad, restarted: Bools, fade: float, tick_s: float) -> Floats:
    """Return the moments of rate and load after a window, k x 6.

    They fade, plus rate T, l T, T, rate^2 T, rate l T and l^2 T.

        rate, l    rate of requests and load of the window, ours or not; 1 for a full server
        restart    with the evidence, and with a window whose load exceeds the mean of l by more than chance
                   while its rate does not exceed its mean

    Load that rises while requests do not is a change under way: a change within a window is complete only in
    the next one.
    """
    before, rate = own.evidence.moments, np.minimum(own.window[..., REQUESTS] / tick_s, MOST_PER_S)
    mean = own.known.statistics
    chance = np.sqrt(own.evidence.dispersion * rate / tick_s) * known_or_zero(own.e)
    chance = np.maximum(chance, RISE_SIGMA * np.sqrt(mean.load_variance)) + IDLE_LOAD
    rises = (before[..., SECONDS] > 0) & (rate <= mean.rate) & (own.load > mean.load + chance)
    products = (rate * rate, rate * own.load, own.load * own.load)
    added = np.stack((rate, own.load, np.ones(rate.shape), *products), axis=-1)
    kept = np.where((restarted | rises)[..., None], 0.0, before * fade)
    return np.where(own.seen[..., None], kept + tick_s * added, before)


def _information(x: Floats) -> Floats:
    """Return the information in a window's requests about their cost: little if noise hides them."""
    return known_or_zero(x * x / (x * x + IDLE_LOAD**2))


def _free(busyness: Busyness, in_flight: InFlight, in_flight_at_half: Floats) -> Floats:
    """Return the free part of a peer without a first request, k: the part that others leave.

        clip((1 - others)/0.5, 0.1, 1),   others = (1 - min_i rs_i) V_half/(Q + V_half)

    Up to half load, it is the noise of a server without work. Q: the requests in flight may be our own first
    ones, and the load theirs.
    """
    load = known_or_zero(1.0 - tightest(busyness.smoothed))
    q = known_or_zero(in_flight.open) + in_flight.waiting
    others = load * in_flight_at_half / (q + in_flight_at_half)
    return clip((1.0 - others) / (1.0 - FREE_UP_TO_LOAD), SMALLEST_FREE, 1.0)
