"""The traffic counts of a tick (step 2). Pure."""

from dataclasses import dataclass
from math import exp

import numpy as np

from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.laws.small_arrays import anybody, known_or_zero, quotient, summed
from steelyard_controller.laws.snapshot import MAX_FIGURE, SMALLEST_FIGURE, Bools, Floats, Ints
from steelyard_controller.laws.steelyard.inputs import Inputs
from steelyard_controller.laws.steelyard.steelyard_parameters import REMEMBERED_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The work of a tick (step 2): k each, or m x 1 where noted.

    reportless_ticks   m x 1, ticks since the last report
    report_age_ticks   m x 1, ticks since the report's window ended
    live               m x 1, whether counts in flight and latencies are recent enough to use
    count              n, usual requests completed in the window; NaN: nothing to learn from
    mean_cost          m x 1, cost_m, cost of a usual request; 0: not reported yet
    in_flight          Q, at the window's end
    mean_in_flight     V, over the window
    latency_s          lat, of a usual request; NaN: not known
    ok, bad            requests completed and failed, fading with tau_e
    expected           requests that the published weights would have sent in the window; may be below 0
    """

    reportless_ticks: Floats
    report_age_ticks: Ints
    live: Bools
    count: Floats
    mean_cost: Floats
    in_flight: Floats
    mean_in_flight: Floats
    latency_s: Floats
    ok: Floats
    bad: Floats
    expected: Floats


def count_traffic(inputs: Inputs) -> Traffic:
    """Read the reports of one tick (step 2).

    no report:           learn nothing; after 3 T_1 steps 8 and 9 are off;  T_1 = max(T, 1 s)
    n                    requests completed; with reported costs, cost/cost_m
    V = n lat/T          of requests, Little's law; at least Q - O if d > T_1: few of those end in a window
    expected             sum of arrived times the peer's published share; 0 without a report
    arrived = n + failed + Q - Q'    Q': in flight at the previous window. It may be below 0 if Q' was counted
                         late. Its sum over windows is right, so it is not cut. It is `failed` alone if
                         lat > T and Q' < n: then requests in flight are not counted there
    """
    snapshots, previous = inputs.snapshots, inputs.previous
    reported = anybody(~np.isnan(snapshots.completed))
    reported &= snapshots.report_age_ticks <= OLDEST_TICKS
    reportless_ticks = np.where(reported, 0.0, inputs.previous_scalars["reportless_ticks"] + 1)
    live = reportless_ticks <= inputs.patience_ticks
    count = np.where(reported, snapshots.completed, np.nan)
    latency_s = np.where(reported, snapshots.latency_s, previous["lat"])
    completed, failed = known_or_zero(snapshots.completed), known_or_zero(snapshots.failed)
    fade = exp(-snapshots.tick_s / inputs.parameters.tau_e)
    at_end = known_or_zero(snapshots.in_flight)
    # Arrivals, not ends: a server that works off its queue has not taken the others' part.
    before = known_or_zero(previous["Q"])
    arrived = completed + failed + at_end - before
    # Requests longer than a window were all in flight before it: a smaller count means that none is made.
    arrived = np.where(
        (latency_s > snapshots.tick_s) & (before < completed), np.minimum(arrived, failed), arrived
    )
    in_flight = count * known_or_zero(latency_s) / snapshots.tick_s
    mean_cost, count = _in_usual_requests(inputs, count)
    long = previous["d"] > inputs.window_s
    in_flight = np.where(long, np.maximum(in_flight, at_end - known_or_zero(previous["open"])), in_flight)
    return Traffic(
        reportless_ticks=reportless_ticks,
        report_age_ticks=np.where(reported, snapshots.report_age_ticks, 0),
        live=live,
        count=count,
        mean_cost=mean_cost,
        in_flight=np.where(reported, at_end, previous["Q"]),
        mean_in_flight=np.minimum(np.where(reported, in_flight, np.nan), MAX_FIGURE),
        latency_s=latency_s,
        ok=np.where(reported, previous["ok"] * fade + completed, previous["ok"]),
        bad=np.where(reported, previous["bad"] * fade + failed, previous["bad"]),
        expected=np.where(reported, summed(arrived) * _shares(inputs), 0.0),
    )


def _in_usual_requests(inputs: Inputs, count: Floats) -> tuple[Floats, Floats]:
    """Return cost_m, the cost of a usual request, and the counts in usual requests if costs are reported.

        cost_m += (1 - e^(-T/4 h)) (sum cost/sum n - cost_m)        the first value is taken as it is

    It is a slow scale and no estimate: more expensive requests are more work, not less capable servers.
    """
    snapshots, before = inputs.snapshots, inputs.previous_scalars["mean_cost"]
    has_cost = ~np.isnan(snapshots.cost) & ~np.isnan(count)
    if not has_cost.any():
        return before, count
    now = quotient(summed(snapshots.cost, has_cost), summed(count, has_cost), 0.0)
    part = 1.0 - exp(-snapshots.tick_s / REMEMBERED_S)
    mean = np.where(
        (before > 0) & (now > 0), before + part * (now - before), np.where(before > 0, before, now)
    )
    return mean, np.where(has_cost & (mean > 0), snapshots.cost / np.maximum(mean, SMALLEST_FIGURE), count)


def _shares(inputs: Inputs) -> Floats:
    """Return each peer's share of the requests if the load balancers follow the published weights."""
    snapshots, own = inputs.snapshots, inputs.previous["W"]
    own = np.where(np.isnan(own), inputs.baseline, own)
    known = ~anybody(np.isnan(snapshots.published))
    followed = np.where(snapshots.eligible, np.where(known, snapshots.published, own), 0.0)
    sums = summed(followed)
    return np.divide(followed, sums, out=np.zeros(followed.shape), where=sums > 0)
