"""Our own part of a window's load (step 5). Pure."""

from dataclasses import dataclass, replace

import numpy as np

from steelyard_controller.laws.small_arrays import clip, median, quotient, summed
from steelyard_controller.laws.snapshot import Bools, Floats
from steelyard_controller.laws.steelyard.contrast import Known, known_of
from steelyard_controller.laws.steelyard.evidence import FEWEST_REQUESTS, YOUNG_WINDOWS, Evidence
from steelyard_controller.laws.steelyard.in_flight import InFlight
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.paired_window import Window
from steelyard_controller.laws.steelyard.request_cost import capacity, prior_cost, prior_worth, split
from steelyard_controller.laws.steelyard.traffic import Traffic

# From this load on, a resource only shows that it is full, and not by whose work.
FULL = 0.95
# Without this, a share took 44 s to return after one of the 120 burns of `make law-burns`.
LEAST_OURS = 0.05
# Requests in flight at half load are about 1 in theory (M/M/1), and fewer behind a picker that compares them.
HALF_LOAD_PART_PER_S = 0.1
HALF_LOAD_MIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLoad:
    """The window with our part of its load, and the evidence before it (step 5); k each.

    load       l, in which a backlog counts as load
    ours       our part of l
    full       the peer is full, by its resources or by its backlog
    inferred   its load is inferred, as that of a full peer is
    seen       the window has something to learn
    measures_cost   the window shows the load of a request: seen, not full, and more than a few requests
    window     k x 3, requests, our load seconds, seconds; 0 if not seen
    prior      cost_0, expected cost of a request; computed only while some peers have a young cost
    evidence   before the window, with cost_0 for peers with their first requests; V_half is new
    known      findings from that evidence about whose load it is
    e, w       expected load seconds a request, and load that is not ours
    """

    load: Floats
    ours: Floats
    full: Bools
    inferred: Bools
    seen: Bools
    measures_cost: Bools
    window: Floats
    prior: Floats
    evidence: Evidence
    known: Known
    e: Floats
    w: Floats


def attribute_load(
    inputs: Inputs, evidence: Evidence, window: Window, traffic: Traffic, in_flight: InFlight
) -> OwnLoad:
    """Return our part of the window's load, with the evidence before it (step 5).

        ours   l if the peer is not full; if it is:  max(n/T cost, V/(V + V_half)), at most 1

    l: load; n, V: requests completed, and mean in flight; V_half: V of a peer at half load. A peer is full if
    l >= 0.95. If its backlog shows it, the count is exact, and l is ours. A single request may be in service,
    and is no backlog. A full window without a request of ours shows nothing, unless requests last longer than
    a window.
    """
    tick_s, l0 = inputs.snapshots.tick_s, inputs.parameters.l0
    known = known_of(inputs, evidence, in_flight)
    e, w = split(evidence.sums, known, l0)
    waiting = _waiting_load(inputs, evidence, e, w, window, traffic, in_flight)
    blocked = window.matched & (waiting > window.load)
    load = np.maximum(window.load, waiting)
    full = window.matched & (load >= FULL)
    rate, mean_in_flight = window.count / tick_s, window.in_flight
    queued = np.maximum(LEAST_OURS, mean_in_flight / (mean_in_flight + evidence.in_flight_at_half))
    explained = np.where(np.isnan(evidence.cost), 1.0, np.minimum(rate * evidence.cost, 1.0))
    ours = np.where(full & ~blocked & (mean_in_flight > 0), np.maximum(queued, explained), load)
    short = in_flight.known_duration_s <= inputs.window_s
    seen = window.matched & ~(full & short & (window.count < 1.0))

    first = np.isnan(evidence.cost) & seen & (window.count > 0) & (ours > 0)
    prior = evidence.cost
    if first.any() or (evidence.windows <= YOUNG_WINDOWS).any():
        prior = prior_cost(evidence.cost, rate * first, ours * first, inputs.baseline)
    if first.any():
        cost, sums = np.where(first, prior, evidence.cost), np.where(first[..., None], 0.0, evidence.sums)
        known, evidence = replace(known, cost=cost), replace(evidence, cost=cost, sums=sums)
        e, w = split(sums, known, l0)
    measures_cost = seen & ~np.isnan(evidence.cost) & ~full & ~window.inferred
    measures_cost &= window.count >= FEWEST_REQUESTS * inputs.window_part
    half = _in_flight_at_half(
        evidence.in_flight_at_half, measures_cost, mean_in_flight, rate * e / (1.0 - w), tick_s
    )
    figures = (window.count, ours * tick_s, np.full(seen.shape, tick_s))
    return OwnLoad(
        load=load,
        ours=ours,
        full=full | (blocked & (in_flight.waiting > 1.0)),
        inferred=window.inferred,
        seen=seen,
        measures_cost=measures_cost,
        window=np.stack(figures, axis=-1) * seen[..., None],
        prior=prior,
        evidence=replace(evidence, in_flight_at_half=half),
        known=known,
        e=e,
        w=w,
    )


def _waiting_load(
    inputs: Inputs,
    evidence: Evidence,
    e: Floats,
    w: Floats,
    window: Window,
    traffic: Traffic,
    in_flight: InFlight,
) -> Floats:
    """Return clip((wait_j - wait_m)/max(T_1, d), 0, 1), k: a backlog counts as load beside the sample."""
    able = capacity(e, w, evidence.requests, inputs.baseline, prior_worth(evidence.cost, inputs.parameters))
    backlog_s, mean_backlog_s = waiting_s(in_flight.waiting, able, inputs.yardsticks)
    saturated_s = np.maximum(inputs.window_s, in_flight.known_duration_s)
    waiting = clip((backlog_s - mean_backlog_s) / saturated_s, 0.0, 1.0)
    return np.where(window.matched & traffic.live, waiting, 0.0)


def waiting_s(waiting: Floats, capacity: Floats, yardsticks: Bools) -> tuple[Floats, Floats]:
    """Return the seconds of work that wait at each peer, k, and at the yardsticks together, m x 1.

    wait_j = waiting_j/c_j,   wait_m = sum waiting/sum c        c: capacity
    """
    mean = quotient(summed(waiting, yardsticks), summed(capacity, yardsticks), 0.0)
    return waiting / capacity, mean


def _in_flight_at_half(
    before: Floats, measures_cost: Bools, in_flight: Floats, rho: Floats, tick_s: float
) -> Floats:
    """Return V_half, m x 1, after a window.

        V_half = EWMA (0.1 per second) of the median of V (1 - rho)/rho over peers that measure a cost

    rho = n/T e/(1 - w) is the load of our requests in the part of the peer that is left to them.
    """
    rho = clip(rho, LEAST_OURS, FULL)
    now = np.maximum(median(in_flight * (1.0 - rho) / rho, measures_cost), HALF_LOAD_MIN)
    return np.where(
        np.isnan(now), before, before + (1.0 - (1.0 - HALF_LOAD_PART_PER_S) ** tick_s) * (now - before)
    )
