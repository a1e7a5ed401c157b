"""Requests by server, as the load balancers have reported them: totals for counters. Pure.

nginx counts its own requests for Prometheus, and Envoy and HAProxy count theirs in other terms. These totals
are the same for every load balancer: each report counts once, at the tick at which it arrives.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.laws.snapshot import Floats

# Reports are added up together: numpy takes as long for one of few servers as for many.
MOST_PENDING = 16
MOST_PENDING_ROWS = 2000


@dataclass(frozen=True, slots=True)
class RequestTotal:
    """A server's requests; `timed` of them have a latency, in all `latency_s`."""

    completed: float = 0.0
    failed: float = 0.0
    latency_s: float = 0.0
    timed: float = 0.0


class _Ended(Struct, frozen=True):
    """The part of a report that counts here. The rest of 16 reports of 1,000 upstreams would take 9 MB."""

    ids: Sequence[str]
    completed: Sequence[int]
    failed: Sequence[int]
    latency_ms: Sequence[float | None]


_NO_TOTALS: Floats = np.zeros((4, 1))
_NO_TOTALS.setflags(write=False)


class RequestCounts(Struct, frozen=True):
    """The totals of an upstream's servers, from 0 when a server comes; immutable."""

    ids: tuple[str, ...] = ()
    totals: Floats = _NO_TOTALS
    pending: tuple[_Ended, ...] = ()

    def after(self, ids: tuple[str, ...], reports: Iterable[TrafficReport]) -> "RequestCounts":
        """Return the totals of these servers after new reports; other servers' figures do not count."""
        new = self if ids == self.ids else self._of_others(ids)
        ended = [_Ended(each.ids, each.completed, each.failed, each.latency_ms) for each in reports]
        pending = (*new.pending, *ended)
        if len(pending) >= MOST_PENDING or len(pending) * len(ids) > MOST_PENDING_ROWS:
            return RequestCounts(ids, _added(new.ids, new.totals, pending))
        return RequestCounts(ids, new.totals, pending)

    def by_server(self) -> Mapping[str, RequestTotal]:
        """Return the totals by server."""
        totals = _added(self.ids, self.totals, self.pending).T.tolist()
        return {peer: RequestTotal(*figures) for peer, figures in zip(self.ids, totals, strict=False)}

    def _of_others(self, ids: tuple[str, ...]) -> "RequestCounts":
        known = _added(self.ids, self.totals, self.pending)
        rows = {peer: row for row, peer in enumerate(self.ids)}
        totals = np.zeros((4, len(ids) + 1))
        for row, peer in enumerate(ids):
            if peer in rows:
                totals[:, row] = known[:, rows[peer]]
        return RequestCounts(ids, totals)


def _added(ids: tuple[str, ...], totals: Floats, reports: Iterable[_Ended]) -> Floats:
    """Return the totals of these servers with the reports' figures; the last column takes the others'."""
    alike: dict[tuple[str, ...], list[_Ended]] = defaultdict(list)
    for report in reports:
        alike[tuple(report.ids)].append(report)
    added = totals.copy()
    rows = {peer: row for row, peer in enumerate(ids)} if alike else {}
    for named, of_same in alike.items():
        columns = np.array([rows.get(peer, len(ids)) for peer in named], dtype=np.intp)
        done = np.array([each.completed for each in of_same], dtype=float)
        failed = np.array([each.failed for each in of_same], dtype=float)
        latency_s = np.array([each.latency_ms for each in of_same], dtype=float) / 1000
        timed = np.where(np.isnan(latency_s), 0.0, done)
        figures = np.stack((done, failed, timed * np.nan_to_num(latency_s), timed)).sum(axis=1)
        added[:, columns] += figures
    return added
