"""The totals of the requests that load balancers have reported."""

from typing import Any

from steelyard_controller.tick.request_counts import MOST_PENDING, RequestCounts, RequestTotal
from steelyard_protocol import traffic_report
from steelyard_protocol.traffic_report import TrafficReport

from ..examples import report


def told(**rows: Any) -> TrafficReport:
    """Return a report: completed, failed, in flight and latency by server."""
    decoded = traffic_report.decode(report(**rows))
    assert isinstance(decoded, TrafficReport)
    return decoded


def test_each_report_counts_once_however_many_wait() -> None:
    counts = RequestCounts()
    for number in range(1, 3 * MOST_PENDING):
        counts = counts.after(("a", "b"), [told(a=(10, 1, 5, 4.0), b=(0, 2, 0, None))])
        totals = counts.by_server()
        assert (totals["a"].completed, totals["a"].failed) == (10 * number, number)
        assert round(totals["a"].latency_s, 6) == round(0.04 * number, 6)
        assert totals["b"] == RequestTotal(0, 2 * number, 0, 0)
    assert len(counts.pending) < MOST_PENDING
    assert counts.after(("a", "b"), []).by_server() == totals


def test_servers_that_come_begin_at_0_the_others_go_on_and_strangers_do_not_count() -> None:
    counts = RequestCounts().after(("a", "b"), [told(a=(10, 0, 0, 1.0), b=(20, 0, 0, 1.0))])
    counts = counts.after(("b", "c"), [told(b=(1, 0, 0, 1.0), x=(500, 0, 0, 1.0))])
    assert {peer: total.completed for peer, total in counts.by_server().items()} == {"b": 21, "c": 0}
    counts = counts.after(("a", "b"), [])
    assert counts.by_server()["a"] == RequestTotal()
