"""The traffic counts of a tick, and estimates in their place when reports stop (step 2).

Pure.

    n_j   completed in the window; Q_j in flight at its end; X = EWMA_0.2(sum n)
    no report for 1-3 ticks: learn nothing
    for more:                n_j = X times the peer's published share, and Q, 6, 7 are off
"""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.pairing import OLDEST_TICKS
from steelyard_controller.laws.small_arrays import known_or_zero
from steelyard_controller.laws.snapshot import Floats, Snapshot
from steelyard_controller.laws.steelyard.steelyard_parameters import REPORT_PATIENCE_TICKS

# A new total's part in X: some five ticks, enough to stand in for a report that failed.
TOTAL_SMOOTHING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The counts to learn from, k each, and whether backlog and latency can be believed (`live`)."""

    reported: bool
    live: bool
    reportless_ticks: int
    age_ticks: int
    count: Floats
    in_flight: Floats
    latency_s: Floats
    total: float


def traffic(
    snapshot: Snapshot,
    *,
    in_flight: Floats,
    latency_s: Floats,
    total: float,
    reportless_ticks: int,
    weights_before: Floats,
) -> Traffic:
    """Read the reports of one tick; the keyword arguments are from the law's memory."""
    reported = bool((~np.isnan(snapshot.completed)).any()) and snapshot.report_age_ticks <= OLDEST_TICKS
    if reported:
        summed = float(known_or_zero(snapshot.completed).sum())
        return Traffic(
            reported=True,
            live=True,
            reportless_ticks=0,
            age_ticks=snapshot.report_age_ticks,
            count=snapshot.completed,
            in_flight=known_or_zero(snapshot.in_flight),
            latency_s=snapshot.latency_s,
            total=summed if total == 0 else total + TOTAL_SMOOTHING * (summed - total),
        )
    silent = reportless_ticks + 1
    live = silent <= REPORT_PATIENCE_TICKS
    return Traffic(
        reported=False,
        live=live,
        reportless_ticks=silent,
        age_ticks=0,
        count=np.full(len(in_flight), np.nan) if live else total * _shares(snapshot, weights_before),
        in_flight=in_flight,
        latency_s=latency_s,
        total=total,
    )


def _shares(snapshot: Snapshot, weights_before: Floats) -> Floats:
    """Return each peer's share of the requests if the load balancers follow the published weights."""
    followed = snapshot.published if not np.isnan(snapshot.published).any() else weights_before
    followed = np.where(snapshot.eligible, followed, 0.0)
    total = followed.sum()
    return followed / total if total > 0 else np.zeros(len(followed))
