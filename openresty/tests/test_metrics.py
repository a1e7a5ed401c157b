"""The two pages about the data plane: /steelyard/metrics for Prometheus, /steelyard/status for people."""

import http.client
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Answer, Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

PAGES = ("/steelyard/status", "/steelyard/metrics")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def edge_with(
    rig: "Rig", *, workers: int = 1, bootstrap: list[str] | None = None, options: str = ""
) -> "Edge":
    """Start an nginx that has both pages."""
    page = 'location = /steelyard/metrics { content_by_lua_block { require("steelyard").metrics() } } }'
    return rig.edge(workers=workers, bootstrap=bootstrap, options=options, servers=page)


def parsed(page: "Answer") -> tuple[Series, dict[str, str]]:
    """Return the metrics as Prometheus reads them: each series' value, and each family's type."""
    assert page.status == 200
    assert page.headers["Content-Type"] == CONTENT_TYPE
    series: Series = {}
    types = {}
    for family in text_string_to_metric_families(page.body):
        assert family.name not in types
        assert family.documentation.endswith(".")
        types[family.name] = family.type
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in series
            series[key] = sample.value
    return series, types


def scrape(edge: "Edge") -> Series:
    """Return the series of an edge, by name and labels."""
    return parsed(edge.get("/steelyard/metrics"))[0]


def value(series: Series, name: str, **labels: str) -> float:
    """Return the value of one series."""
    return series[f"steelyard_{name}", frozenset(labels.items())]


def test_prometheus_reads_the_metrics_and_they_agree_with_the_status_page(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 3, "up"), ("b", b.address, 1, "drain")], generation=7, term=2)
    edge = edge_with(rig, workers=2)
    edge.wait_for(7, term=2)
    edge.shares(8)
    edge.get("/?status=500")
    rig.wait_until(lambda: edge.peer("a")["completed"] + edge.peer("a")["failed"] >= 9, "all are counted")
    series, status = scrape(edge), edge.status()
    assert value(series, "build_info", version="0.1.0", lb="edge-1", platform=status["platform"]) == 1
    assert value(series, "workers") == 2
    assert value(series, "table_term", upstream="web") == 2
    assert value(series, "table_generation", upstream="web") == 7
    assert 0 <= value(series, "table_age_seconds", upstream="web") < 100
    assert value(series, "upstream_fail_open", upstream="web") == 0
    rungs = {
        dict(labels)["rung"]: on for (name, labels), on in series.items() if name == "steelyard_upstream_rung"
    }
    assert {*rungs} == {"fresh", "hold", "drift", "saved", "bootstrap", "none"}
    assert sum(rungs.values()) == rungs["fresh"] + rungs["hold"] == 1  # `hold` on a busy machine
    for row in status["upstreams"]["web"]["peers"]:
        peer = {"upstream": "web", "peer": row["id"]}
        assert value(series, "peer_info", **peer, address=row["address"], state=row["state"]) == 1
        assert value(series, "peer_weight", **peer) == row["weight"]
        assert value(series, "peer_baseline_weight", **peer) == row["baseline"]
        assert value(series, "peer_share_ratio", **peer) == row["share"]
        assert value(series, "peer_eligible", **peer) == row["eligible"]
        assert value(series, "peer_health", **peer, health=row["health"]) == 1
        assert value(series, "peer_picks_total", **peer) == row["picks"]
        assert value(series, "peer_requests_total", **peer, outcome="completed") == row["completed"]
        assert value(series, "peer_requests_total", **peer, outcome="failed") == row["failed"]
        assert value(series, "peer_latency_seconds_count", **peer) == row["completed"]
        assert value(series, "peer_latency_seconds_sum", **peer) * 1000 == pytest.approx(
            row["latency_total_ms"]
        )
        assert value(series, "peer_in_flight", **peer) == row["in_flight"]
    assert value(series, "peer_eligible", upstream="web", peer="a") == 1
    assert value(series, "peer_eligible", upstream="web", peer="b") == 0
    assert value(series, "peer_share_ratio", upstream="web", peer="a") == 1


def test_names_and_types_follow_prometheus_conventions(rig: "Rig") -> None:
    a = rig.backend("a")
    edge = edge_with(rig, bootstrap=[a.address])
    _, types = parsed(edge.get("/steelyard/metrics"))
    counters = {name for name, kind in types.items() if kind == "counter"}  # the parser takes `_total` off
    assert counters == {
        "steelyard_fetch_errors", "steelyard_controller_errors", "steelyard_report_errors",
            "steelyard_load_reports_malformed", "steelyard_dict_refused", "steelyard_timer_errors",
            "steelyard_exchange_errors", "steelyard_exchange_failures_refused",
        "steelyard_upstream_subrequests", "steelyard_upstream_subrequests_counted",
        "steelyard_upstream_retries", "steelyard_upstream_retries_refused", "steelyard_upstream_full",
        "steelyard_upstream_queued", "steelyard_upstream_unlogged", "steelyard_upstream_costs_malformed",
        "steelyard_upstream_sessions_closed", "steelyard_upstream_picker_errors",
        "steelyard_table_refused", "steelyard_peer_picks", "steelyard_peer_requests",
        "steelyard_unknown_upstreams", "steelyard_upstream_list_refused",
    }  # fmt: skip
    assert types["steelyard_peer_latency_seconds"] == "summary"
    assert set(types.values()) == {"counter", "gauge", "summary"}
    for name in types.keys() - counters:
        assert not name.endswith(("_total", "_count", "_sum", "_ms"))


def test_counters_only_grow(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = edge_with(rig, workers=2)
    edge.wait_for(1)
    before: Series = {}
    for generation in range(2, 7):
        edge.shares(6)
        edge.get("/?status=503")
        rig.memcached.set("steelyard:1:weights:web", b"garbage")
        edge.wait_refused("not_json", generation - 1)
        rig.publish([("a", a.address, generation, "up"), ("b", b.address, 1, "up")], generation=generation)
        edge.wait_for(generation)
        page, types = parsed(edge.get("/steelyard/metrics"))
        grows = ("_total", "_count", "_sum")
        counted = {key: held for key, held in page.items() if key[0].endswith(grows)}
        assert types
        assert before.keys() <= counted.keys()
        assert all(counted[key] >= held for key, held in before.items())
        before = counted
    assert value(before, "table_refused_total", upstream="web", reason="not_json") >= 5
    assert sum(held for (name, _), held in before.items() if name == "steelyard_peer_picks_total") >= 30


def test_ids_with_quotes_and_backslashes_are_read_back_as_they_are(rig: "Rig") -> None:
    a = rig.backend("a")
    strange = 'a "quoted" \\ one'
    listed = f"{{ id = [[{strange}]], address = '{a.address}', weight = 5 }}"
    edge = edge_with(rig, options=f"upstreams = {{ web = {{ bootstrap = {{ {listed} }} }} }},")
    assert value(scrape(edge), "peer_weight", upstream="web", peer=strange) == 5
    assert edge.upstream()["peers"][0]["id"] == strange


def test_an_unreachable_peer_and_a_dead_memcached_show(rig: "Rig") -> None:
    a = rig.backend("a")
    dead = rig.dead_address()
    edge = edge_with(rig, bootstrap=[a.address, dead])
    edge.shares(4)
    rig.wait_until(lambda: edge.peer(dead)["failed"] >= 1, "the dead one is counted")
    rig.memcached.stop()
    rig.wait_until(lambda: edge.status()["fetch_errors"] >= 1, "a fetch fails")
    rig.wait_until(lambda: edge.status()["report_errors"] >= 1, "a report fails")
    series = scrape(edge)
    assert value(series, "fetch_errors_total") >= 1
    assert value(series, "report_errors_total") >= 1
    assert value(series, "peer_requests_total", upstream="web", peer=dead, outcome="failed") >= 1
    assert value(series, "upstream_rung", upstream="web", rung="bootstrap") == 1


def test_both_pages_are_for_loopback_and_whom_allow_names(rig: "Rig") -> None:
    a = rig.backend("a")
    edge = edge_with(rig, bootstrap=[a.address], options='allow = {"10.1.0.0/16", "fd00::/8"},')
    for page in PAGES:
        for client in ("10.1.2.3", "fd00::1", "127.0.0.9", "::1", "::ffff:127.0.0.1", "::ffff:10.1.0.1"):
            assert edge.get(page, {"X-Real-IP": client}).status == 200, client
        for client in ("10.2.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.2.0.1"):
            answer = edge.get(page, {"X-Real-IP": client})
            assert answer.status == 403
            assert answer.json()["status"] == 403
            assert client in answer.json()["detail"]
            assert "web" not in answer.body


def test_both_pages_take_get_and_head_and_nothing_else(rig: "Rig") -> None:
    edge = edge_with(rig, bootstrap=[rig.dead_address()])
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    for page in PAGES:
        for method, expected in (("HEAD", 200), ("GET", 200), ("POST", 405), ("DELETE", 405), ("PUT", 405)):
            connection.request(method, page)
            response = connection.getresponse()
            body = response.read()
            assert response.status == expected
            assert bool(body) == (method != "HEAD")
            assert response.getheader("Allow") == ("GET, HEAD" if expected == 405 else None)
    connection.close()


def test_requests_are_served_while_thousands_of_peers_are_shown_and_a_reader_that_leaves_disturbs_none(
    rig: "Rig",
) -> None:
    a = rig.backend("a")
    peers = [(f"s{i:04}", f"127.1.{i // 250}.{i % 250 + 1}:80", 1 + i % 9, "down") for i in range(2000)]
    rig.publish([("a", a.address, 1, "up"), *peers], generation=1)
    edge = edge_with(rig)
    edge.wait_for(1)
    slow = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    for page in PAGES:
        slow.request("GET", page)  # the answer is not read
        assert edge.shares(5) == {"a": 5}
        answer = slow.getresponse()
        assert answer.status == 200
        assert b"s1999" in answer.read()
    slow.close()
    for page in PAGES * 2:
        leaver = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
        leaver.request("GET", page)
        leaver.close()
        assert edge.shares(2) == {"a": 2}
    series = scrape(edge)
    assert sum(name == "steelyard_peer_weight" for name, _ in series) == 2001
    assert value(series, "peer_weight", upstream="web", peer="s1999") == 1 + 1999 % 9
    assert [row["id"] for row in edge.upstream()["peers"]] == ["a", *(peer[0] for peer in peers)]
