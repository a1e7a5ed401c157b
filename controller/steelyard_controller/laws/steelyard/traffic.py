"""The traffic counts of a tick, and estimates in their place when reports stop (step 2).

Pure.

    n_j   completed in the window; Q_j in flight at its end; X = EWMA_0.2(sum n)
    no report for 1-3 ticks: learn nothing
    for more:                n_j = X times the peer's published share, and Q, 6, 7 are off
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.laws.small_arrays import anybody, known_or_zero, summed
from steelyard_controller.laws.snapshot import Batch, Bools, Floats, Ints
from steelyard_controller.laws.steelyard.steelyard_parameters import REPORT_PATIENCE_TICKS

# A new total's part in X: some five ticks, enough to stand in for a report that failed.
TOTAL_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The counts to learn from, k each, and whether backlog and latency can be believed (`live`), m x 1."""

    reported: Bools
    live: Bools
    reportless_ticks: Floats
    age_ticks: Ints
    count: Floats
    in_flight: Floats
    latency_s: Floats
    total: Floats


def traffic(
    snapshots: Batch,
    *,
    in_flight: Floats,
    latency_s: Floats,
    total: Floats,
    reportless_ticks: Floats,
    weights_before: Floats,
) -> Traffic:
    """Read the reports of one tick; the keyword arguments are from the law's memory."""
    reported = anybody(~np.isnan(snapshots.completed))
    reported &= snapshots.report_age_ticks <= OLDEST_TICKS
    silent = np.where(reported, 0.0, reportless_ticks + 1)
    live = silent <= REPORT_PATIENCE_TICKS
    guess = np.where(live, np.nan, total * _shares(snapshots, weights_before))
    done = summed(known_or_zero(snapshots.completed))
    smoothed = np.where(total == 0, done, total + TOTAL_SMOOTHING * (done - total))
    return Traffic(
        reported=reported,
        live=live,
        reportless_ticks=silent,
        age_ticks=np.where(reported, snapshots.report_age_ticks, 0),
        count=np.where(reported, snapshots.completed, guess),
        in_flight=np.where(reported, known_or_zero(snapshots.in_flight), in_flight),
        latency_s=np.where(reported, snapshots.latency_s, latency_s),
        total=np.where(reported, smoothed, total),
    )


def _shares(snapshots: Batch, weights_before: Floats) -> Floats:
    """Return each peer's share of the requests if the load balancers follow the published weights."""
    known = ~anybody(np.isnan(snapshots.published))
    followed = np.where(snapshots.eligible, np.where(known, snapshots.published, weights_before), 0.0)
    sums = summed(followed)
    return np.divide(followed, sums, out=np.zeros(followed.shape), where=sums > 0)
