"""Envoy's load statistics as traffic reports."""

from typing import Any

import pytest
from steelyard_controller.xds.load_stats import NodeReports, node_name
from steelyard_controller.xds.xds_messages import LoadStatsRequest
from steelyard_protocol import traffic_report
from steelyard_protocol.traffic_report import TrafficReport

from .tables import peer, table

TABLES = {"web": table(peer("a", "10.0.0.1:80"), peer("b", "[fd00::2]:80"), peer("c", "10.0.0.3:80"))}


def _stats(
    *rows: tuple[str, int, int, int, int], name: str = "web", service: str = "", interval_s: float = 1.0
) -> Any:
    """Return a cluster's statistics: address, port, successful, failed, in progress."""
    request = LoadStatsRequest()
    cluster = request.cluster_stats.add(cluster_name=name, cluster_service_name=service)
    cluster.load_report_interval.FromNanoseconds(round(interval_s * 1e9))
    for address, port, successful, failed, open_now in rows:
        stats = cluster.upstream_locality_stats.add().upstream_endpoint_stats.add(
            total_successful_requests=successful,
            total_error_requests=failed,
            total_requests_in_progress=open_now,
        )
        stats.address.socket_address.address = address
        stats.address.socket_address.port_value = port
    return cluster


def _reports(*clusters: Any, lb: str = "edge-1") -> list[TrafficReport]:
    return list(NodeReports(lb, "b1").reports(clusters, TABLES, 123))


def test_what_endpoints_did_is_reported_by_server_and_the_others_did_nothing() -> None:
    (report,) = _reports(_stats(("10.0.0.1", 80, 7, 2, 3), ("fd00::2", 80, 5, 0, 0), interval_s=1.0021))
    assert (report.upstream, report.lb, report.boot, report.seq) == ("web", "edge-1", "b1", 1)
    assert (report.interval_s, report.sent_at_ms) == (1.002, 123)
    assert report.ids == ["a", "b", "c"]
    assert (report.completed, report.failed, report.in_flight) == ([7, 5, 0], [2, 0, 0], [3, 0, 0])
    assert report.latency_ms == [None, None, None]
    assert traffic_report.decode(traffic_report.encode(report)) == report


@pytest.mark.parametrize("declared", ["[FD00:0::AB]:0080", "[fd00::ab]:80"])
def test_an_endpoint_is_its_server_however_either_is_spelled(declared: str) -> None:
    # The table may be of a controller that publishes addresses as they were typed.
    tables = {"web": table(peer("a", declared), peer("b", "10.0.0.1:0080"))}
    stats = _stats(("fd00::ab", 80, 1, 0, 0), ("FD00::AB", 80, 2, 0, 0), ("::ffff:10.0.0.1", 80, 4, 0, 0))
    pipe = _stats(("", 0, 8, 0, 0))
    (report,) = NodeReports("edge-1", "b1").reports([stats, pipe], tables, 123)
    assert report.completed == [3, 4]


def test_clusters_of_one_upstream_are_added_up() -> None:
    (report,) = _reports(
        _stats(("10.0.0.1", 80, 1, 1, 1)), _stats(("10.0.0.1", 80, 2, 3, 4), name="mirror", service="web")
    )
    assert (report.completed[0], report.failed[0], report.in_flight[0]) == (3, 4, 5)


def test_what_is_no_server_or_no_upstream_of_ours_is_passed_over() -> None:
    (report,) = _reports(_stats(("10.9.9.9", 80, 7, 0, 0)), _stats(("10.0.0.1", 80, 1, 0, 0), name="other"))
    assert report.completed == [0, 0, 0]


def test_a_window_after_a_break_is_left_out() -> None:
    assert _reports(_stats(("10.0.0.1", 80, 7, 0, 0), interval_s=30)) == []
    assert _reports(_stats(("10.0.0.1", 80, 7, 0, 0), interval_s=0)) == []


def test_reports_of_one_stream_are_numbered() -> None:
    reports = NodeReports("edge-1", "b1")
    assert [each.seq for _ in range(3) for each in reports.reports([_stats()], TABLES, 0)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("metric", "count", "total", "latency_ms"),
    [
        ("named_metrics.latency_ms", 4, 50.0, 12.5),
        ("latency_ms", 4, 50.0, 12.5),
        ("named_metrics.queue", 4, 50.0, None),
        ("named_metrics.latency_ms", 0, 50.0, None),
        ("named_metrics.latency_ms", 4, float("nan"), None),
        ("named_metrics.latency_ms", 4, -1.0, None),
        ("named_metrics.latency_ms", 4, 1e300, None),
    ],
)
def test_latency_is_what_servers_tell_of_it_where_that_is_a_time(
    metric: str, count: int, total: float, latency_ms: float | None
) -> None:
    cluster = _stats(("10.0.0.1", 80, 4, 0, 0))
    cluster.upstream_locality_stats[0].upstream_endpoint_stats[0].load_metric_stats.add(
        metric_name=metric, num_requests_finished_with_metric=count, total_metric_value=total
    )
    (report,) = _reports(cluster)
    assert report.latency_ms == [latency_ms, None, None]
    assert traffic_report.decode(traffic_report.encode(report)) == report


def test_counts_beyond_what_a_report_holds_are_cut() -> None:
    (report,) = _reports(_stats(("10.0.0.1", 80, 2**63, 0, 0)))
    assert traffic_report.decode(traffic_report.encode(report)) == report


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("edge-1", "edge-1"),
        ("sidecar~10.1.2.3~web-6d8f-x2k.shop~shop.svc.cluster.local", "web-6d8f-x2k.shop"),
        ("", None),
        ("edge 1", None),
        ("a~b", None),
        ("x" * 65, None),
    ],
)
def test_a_node_id_names_the_load_balancer(node_id: str, name: str | None) -> None:
    assert node_name(node_id) == name
