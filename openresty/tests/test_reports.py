"""nginx's traffic: the report in Memcached, and the status page."""

import contextlib
import json
import os
import signal
import socket
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from openresty.tests.nginx_process import one_upstream
from testing.meanwhile import meanwhile
from testing.waiting import wait_until

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration


class Reports:
    """Every report on an upstream since the start, by its number."""

    def __init__(self, rig: "Rig", upstream: str = "web") -> None:
        self._rig, self._upstream = rig, upstream
        self.by_seq: dict[int, Any] = {}

    def read(self) -> Any:
        """Return the newest report, or an empty one."""
        report = self._rig.report(self._upstream)
        self.by_seq[report["seq"]] = report
        return report

    def total(self, peer: str, figure: str) -> int:
        """Return the sum over all reports, including the newest."""
        self.read()
        return sum(report["peers"].get(peer, {}).get(figure, 0) for report in self.by_seq.values())

    def followed(self) -> AbstractContextManager[None]:
        """Read the reports meanwhile, so that none is missed."""

        def read(over: threading.Event) -> None:
            while not over.wait(0.1):
                self.read()

        return meanwhile(read)

    def lost(self) -> bool:
        """Return whether a number is missing between the first report and the newest."""
        return max(self.by_seq) - min(self.by_seq) + 1 > len(self.by_seq)


# Long enough that a polling test misses no report, even on a busy machine.
RARELY = "report_interval_s = 2,"


def serving(rig: "Rig", workers: int, options: str = "") -> "Edge":
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = rig.edge(workers=workers, options=options)
    edge.wait_for(1)
    return edge


def test_a_server_is_one_however_its_address_is_spelled(rig: "Rig") -> None:
    # In the table, to `mark`, and in an upstream of nginx itself.
    port = rig.backend("a").address.partition(":")[2]
    rig.publish([("a", f"[::FFFF:7f00:1]:{port}", 1, "up")], generation=1)
    own = f"""
      location /own {{ proxy_pass http://own; }}
      location = /mark {{
        content_by_lua_block {{ ngx.say(require("steelyard").mark("web", ngx.var.arg_server, "down")) }}
      }}
    }}
    upstream own {{ server [::ffff:127.0.0.1]:{port}; }}"""
    edge = rig.edge(servers=own)
    edge.wait_for(1)
    assert edge.peer("a")["address"] == f"127.0.0.1:{port}"
    assert [edge.get(path).headers["X-Backend"] for path in ("/", "/own")] == ["a", "a"]
    rig.wait_until(lambda: edge.peer("a")["completed"] == 2, "both requests are counted")
    assert edge.get(f"/mark?server=[0::ffff:127.0.0.1]:{port}").body == "true\n"
    rig.wait_until(lambda: edge.peer("a")["health_reason"] == "marked down", "it is marked")


@pytest.mark.parametrize("workers", [1, 4])
def test_reports_add_up_to_what_was_asked(rig: "Rig", workers: int) -> None:
    edge = serving(rig, workers, RARELY)

    def sums(report: Any) -> tuple[int, int]:
        peers = report["peers"].values()
        return sum(peer["completed"] for peer in peers), sum(peer["failed"] for peer in peers)

    def none_lost() -> Reports | None:
        reports = Reports(rig)

        def quiet() -> bool:
            report = reports.read()
            reports.by_seq = {report["seq"]: report}
            return bool(report["peers"]) and sums(report) == (0, 0)

        def totals() -> tuple[int, int]:
            reports.read()
            completed, failed = zip(*map(sums, reports.by_seq.values()), strict=True)
            return sum(completed), sum(failed)

        wait_until(quiet, "a report of nothing")
        for _ in range(40):
            edge.get()
            reports.read()
        for _ in range(6):
            edge.get("/?status=500")
            edge.get("/?status=404")
            reports.read()
        wait_until(
            lambda: totals() == (46, 6) or reports.lost(), lambda: f"46 completed, 6 failed: {totals()}"
        )
        return None if reports.lost() else reports

    # A report that Memcached did not take in time is lost, so its requests are sent again.
    reports = wait_until(none_lost, "reports of which none was lost")
    report = reports.read()
    assert (report["v"], report["upstream"], report["lb"]) == (1, "web", "edge-1")
    assert 1 <= report["interval_s"] <= 20
    assert len({r["boot"] for r in reports.by_seq.values()}) == 1


def test_a_server_in_two_upstreams_is_reported_in_both_with_the_work_of_both(rig: "Rig") -> None:
    shared = rig.backend("shared")
    for upstream in ("web", "api"):
        rig.publish([(f"{upstream}-1", shared.address, 1, "up")], generation=1, upstream=upstream)
    edge = rig.edge(
        options="upstreams = { web = {}, api = {} },",
        servers="""
            location /api { proxy_pass http://api; }
        }
        upstream api { server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("api") } }
        """,
    )
    edge.wait_for(1)
    rig.wait_until(lambda: edge.upstream("api")["generation"] == 1, "api has its table too")
    for path in ("/", "/", "/api"):
        assert edge.get(path).status == 200

    def completed(upstream: str) -> int:
        return int(edge.upstream(upstream)["peers"][0]["completed"])

    rig.wait_until(lambda: (completed("web"), completed("api")) == (3, 3), "three requests in both")


def test_what_nginx_sends_to_a_server_by_its_own_upstream_is_that_servers_work_too(rig: "Rig") -> None:
    ours, foreign = rig.backend("ours"), rig.backend("foreign")
    rig.publish([("a", ours.address, 1, "up")], generation=1)
    edge = rig.edge(
        servers=f"""
            location /plain {{ proxy_pass http://plain/; }}
            location /foreign {{ proxy_pass http://{foreign.address}/; }}
        }}
        upstream plain {{ server {ours.address}; }}
        """,
    )
    edge.wait_for(1)
    for path in ("/", "/plain", "/plain?status=500", "/foreign", "/plain"):
        edge.get(path)
    rig.wait_until(lambda: edge.peer("a")["completed"] + edge.peer("a")["failed"] == 4, "4 are counted")
    peer = edge.peer("a")
    assert (peer["picks"], peer["completed"], peer["failed"], peer["in_flight"]) == (1, 3, 1, 0)


def test_a_report_has_a_list_for_each_figure_in_the_order_of_the_ids(rig: "Rig") -> None:
    edge, reports = serving(rig, 1), Reports(rig)

    def counted() -> bool:
        edge.get()
        return any(reports.read().get("completed", []))

    rig.wait_until(counted, "a report that counts requests")
    report = next(each for each in reports.by_seq.values() if any(each.get("completed", [])))
    assert (report["v"], report["ids"], report["failed"]) == (1, ["a", "b"], [0, 0])
    assert [latency is None for latency in report["latency_ms"]] == [not done for done in report["completed"]]


def test_an_idle_report_lists_all_peers_with_nothing_done(rig: "Rig") -> None:
    serving(rig, 1)
    reports = Reports(rig)
    rig.wait_until(lambda: len(reports.read()["peers"]) == 2, "a report of two peers")
    idle = {"completed": 0, "failed": 0, "in_flight": 0, "latency_ms": None}
    assert reports.read()["peers"] == {"a": idle, "b": idle}


def test_a_request_is_in_flight_until_it_ends_and_its_latency_is_told(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge, reports = rig.edge(workers=2, options=RARELY), Reports(rig)
    edge.wait_for(1)
    thread = threading.Thread(target=edge.get, args=("/?sleep_s=5",))
    thread.start()
    rig.wait_until(lambda: reports.read()["peers"].get("a", {}).get("in_flight") == 1, "one in flight")
    thread.join()

    def ended() -> bool:
        return any(
            report["peers"].get("a", {}).get("completed") == 1
            and report["peers"]["a"]["in_flight"] == 0
            and 4900 < report["peers"]["a"]["latency_ms"] < 60_000
            for report in [reports.read()]
        )

    rig.wait_until(ended, "the request is completed, with its latency")


def test_a_report_has_the_median_of_all_workers_and_one_long_request_does_not_move_it(rig: "Rig") -> None:
    a, idle = rig.backend("a"), rig.backend("idle")
    for upstream in ("web", "api"):
        rows = [("a", a.address, 1, "up"), ("idle", idle.address, 1, "drain")]
        rig.publish(rows, generation=1, upstream=upstream)
    edge = rig.edge(workers=4, options="report_interval_s = 3, upstreams = { web = {}, api = {} },")
    edge.wait_for(1)
    edge.get("/?sleep_s=1.9")

    # a is a server of both upstreams, and its work is in both reports.
    both = (Reports(rig), Reports(rig, "api"))

    def reported() -> bool:
        edge.shares(4, "/?sleep_s=0.2")
        return min(len(medians(reports)) for reports in both) > 0

    rig.wait_until(reported, "reports of some requests")
    for reports in both:
        # 200 ms is between 128 and 256, but a busy machine may double it. The long request is above 1024.
        assert all(128 <= median <= 1024 for median in medians(reports))
        assert reports.read()["peers"]["idle"].get("latency_p50_ms") is None


def medians(reports: Reports) -> list[float]:
    """Return the report of `a` for an interval with several completed requests."""
    reports.read()
    rows = [report["peers"].get("a", {}) for report in reports.by_seq.values()]
    return [row["latency_p50_ms"] for row in rows if row.get("completed", 0) > 2]


def test_a_killed_worker_leaves_nothing_in_flight(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)

    def interrupted() -> None:
        with pytest.raises(OSError, match=r".*"):
            edge.get("/?sleep_s=50")

    thread = threading.Thread(target=interrupted)
    thread.start()
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "one in flight")
    (pid,) = edge.worker_pids()
    os.kill(pid, signal.SIGKILL)
    thread.join()
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 0, "it is forgotten")


def test_a_client_that_goes_away_is_nobody_s_failure(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    with socket.create_connection(("127.0.0.1", edge.port)) as client:
        client.sendall(b"GET /?sleep_s=50 HTTP/1.1\r\nHost: x\r\n\r\n")
        rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "one in flight")
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 0, "it is let go")
    rig.wait_until(lambda: edge.peer("a")["picks"] == 1, "its pick is counted")
    assert (edge.peer("a")["completed"], edge.peer("a")["failed"]) == (0, 0)


COUNTS_FLUSHES = """
    location = /watch {
      content_by_lua_block {
        local worker = require "steelyard.phase.worker"
        local flush = worker.flush
        worker.flush = function(...)
          if worker.leaving then ngx.shared.steelyard:incr("test/flushes", 1, 0) end
          return flush(...)
        end
      }
    }
    location = /flushes { content_by_lua_block { ngx.print(ngx.shared.steelyard:get("test/flushes") or 0) } }
}
"""


def test_a_worker_that_leaves_hands_in_all_counts_and_not_once_a_request(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge, reports = rig.edge(servers=COUNTS_FLUSHES), Reports(rig)
    edge.wait_for(1)
    edge.get("/watch")
    requests, a.holds["/"] = 60, threading.Event()
    with ThreadPoolExecutor(requests + 1) as pool, reports.followed():
        answers = [pool.submit(edge.get, "/") for _ in range(requests)]
        rig.wait_until(lambda: edge.peer("a")["in_flight"] == requests, "all are under way")
        reloaded = pool.submit(edge.reload)
        rig.wait_until(lambda: edge.logged("gracefully shutting down"), "the worker leaves")
        a.holds["/"].set()
        reloaded.result()
        assert {answer.result().status for answer in answers} == {200}
        rig.wait_until(lambda: edge.peer("a")["completed"] == requests, "all are counted")
        # The leaving worker's memory is not that of the workers that report.
        rig.wait_until(
            lambda: reports.total("a", "completed") == requests or reports.lost(), "all are in reports"
        )
    assert 1 <= int(edge.get("/flushes").body) < requests / 2


def test_a_request_that_comes_after_the_last_timer_of_a_leaving_worker_is_counted(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge, reports = rig.edge(servers=COUNTS_FLUSHES), Reports(rig)
    edge.wait_for(1)
    edge.get("/watch")
    with socket.create_connection(("127.0.0.1", edge.port)) as client, reports.followed():
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n")
        assert edge.get("/flushes").body == "0", "the worker has read that"
        edge.begin_reload()
        rig.wait_until(lambda: edge.get("/flushes").body != "0", "it leaves, and has no request")
        # The first report of its successor that has a table begins with what was counted until then.
        edge.wait_for(1)
        reported = reports.read()["seq"]
        rig.wait_until(lambda: reports.read()["seq"] > reported + 1, "its successor reports with the table")
        client.sendall(b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        rig.wait_until(lambda: edge.peer("a")["completed"] == 1, "it is counted")
        rig.wait_until(lambda: reports.total("a", "completed") == 1 or reports.lost(), "it is in a report")


def test_a_reload_keeps_boot_and_numbers(rig: "Rig") -> None:
    edge, reports = serving(rig, 2), Reports(rig)
    rig.wait_until(lambda: reports.read()["seq"] > 1, "reports")
    before = reports.read()
    edge.reload()
    rig.wait_until(lambda: reports.read()["seq"] > before["seq"] + 1, "reports go on")
    assert reports.read()["boot"] == before["boot"]


def test_the_status_page_shows_peers_weights_and_picks(rig: "Rig") -> None:
    edge = serving(rig, 2)
    edge.shares(20)
    rig.wait_until(lambda: edge.peer("a")["completed"] + edge.peer("b")["completed"] == 20, "20 are counted")
    status = edge.status()
    assert (status["lb"], len(status["workers"])) == ("edge-1", 2)
    assert status["platform"] in ("debian", "openresty")
    web = status["upstreams"]["web"]
    assert (web["term"], web["generation"], web["law"]) == (1, 1, "steelyard")
    assert web["rung"] in ("fresh", "hold")
    assert [(p["id"], p["weight"], p["state"], p["eligible"], p["share"]) for p in web["peers"]] == [
        ("a", 1, "up", True, 0.5),
        ("b", 1, "up", True, 0.5),
    ]
    assert sum(p["picks"] for p in web["peers"]) == 20
    assert 0 <= web["age_s"] < 60


def test_the_status_page_is_for_loopback_and_whom_the_option_names(rig: "Rig") -> None:
    edge = rig.edge(options='allow = {"10.9.0.0/16"}, upstreams = { web = {} },')
    assert edge.get("/steelyard/status").status == 200
    assert edge.get("/steelyard/status", {"X-Real-IP": "10.9.1.1"}).status == 200
    refused = edge.get("/steelyard/status", {"X-Real-IP": "10.8.1.1"})
    assert refused.status == 403
    assert refused.json()["detail"].startswith("10.8.1.1 is neither loopback")


def test_a_report_tells_the_rung_and_the_order_of_the_table_that_is_served(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.edge(bootstrap=[a.address])
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["seq"], "a report")
    assert (reports.read()["rung"], "order" in reports.read()) == ("bootstrap", False)
    for term, generation in ((3, 7), (3, 8), (4, 1)):
        rig.publish([("a", a.address, 1, "up")], term=term, generation=generation)
        rig.wait_until(lambda: reports.read().get("order") == [term, generation], "its order")  # noqa: B023
        first = min(seq for seq, each in reports.by_seq.items() if each.get("order") == [term, generation])
        # The rung differs only if a busy machine delayed the first reading.
        assert reports.by_seq[first]["rung"] == "fresh" or first - 1 not in reports.by_seq
    rig.wait_until(lambda: reports.read()["rung"] == "hold", "the table is no longer fresh")
    assert reports.read()["order"] == [4, 1]


def test_an_nginx_that_has_no_table_and_no_list_reports_the_rung_none(rig: "Rig") -> None:
    rig.edge()
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["seq"], "a report")
    report = reports.read()
    assert (report["rung"], "order" in report, report["peers"]) == ("none", False, {})


def test_a_load_balancer_that_the_table_does_not_name_announces_itself_until_it_does(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1, reporters=["edge-9"])
    edge = rig.edge(options="report_interval_s = 0.2,")
    edge.wait_for(1)

    def read() -> object:
        return edge.status()["upstreams"]["web"]["reports_read"]

    assert read() is False, "the table does not name it"
    rig.wait_until(lambda: rig.memcached.get("steelyard:1:load-balancers"), "an announcement")
    lines = rig.memcached.get("steelyard:1:load-balancers") or b""
    assert set(lines.splitlines()) <= {b"web edge-1"}
    rig.publish([("a", a.address, 1, "up")], generation=2, reporters=["edge-9", "edge-1"])
    rig.wait_until(lambda: read() is True, "the table that names it")
    rig.wait_until(lambda: rig.memcached.get("steelyard:1:load-balancers") is None, "no more announcements")


def test_two_nginx_of_one_name_are_a_fault_of_the_controller(rig: "Rig") -> None:
    a = rig.backend("a")
    block = one_upstream(rig.memcached.port, "upstreams = { web = {} },", "}")
    with rig.controller([a]) as url:
        edges = [rig.edge_of(block, folder=folder) for folder in ("one", "other")]

        def degraded() -> str:
            for edge in edges:
                edge.get("/")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz") as answer:  # noqa: S310
                return str(json.load(answer)["degraded"])
            return ""

        rig.wait_until(lambda: "two programs report as edge-1" in degraded(), "the fault")
        assert "each nginx its own `lb`" in degraded()
