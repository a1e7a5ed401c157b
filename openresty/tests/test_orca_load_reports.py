"""Load reports in servers' responses (ORCA): reported, and used to judge servers without an agent."""

import http.client
from collections.abc import Iterable
from typing import Any

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

HEADER = "endpoint-load-metrics"


def reported(rig: Rig, peer: str) -> Any:
    """Return a peer's load in the newest report, or None."""
    return rig.report()["peers"].get(peer, {}).get("load")


def serving(rig: Rig, *servers: Backend, workers: int = 1) -> Edge:
    rig.publish([(server.name, server.address, 1, "up") for server in servers], generation=1)
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    return edge


def wait_reported(rig: Rig, edge: Edge, peer: str, load: Any) -> None:
    """Ask until a report has this load of a peer."""

    def asked() -> bool:
        edge.get()
        return bool(reported(rig, peer) == load)

    rig.wait_until(asked, f"{peer} is reported with the load {load}")


@pytest.mark.parametrize(
    "value",
    [
        "TEXT cpu_utilization=0.3, mem_utilization=0.8, rps_fractional=10.0, named_metrics.kv_cache=0.4",
        'JSON {"cpu_utilization": 0.3, "mem_utilization": 0.8, "named_metrics": {"kv_cache": 0.4}}',
        "BIN CTMzMzMzM9M/EZqZmZmZmek/QhMKCGt2X2NhY2hlEZqZmZmZmdk/",
    ],
)
def test_what_a_server_says_of_its_load_is_reported(rig: Rig, value: str) -> None:
    says, silent = rig.backend("says"), rig.backend("silent")
    says.headers[HEADER] = value
    edge = serving(rig, says, silent, workers=2)
    wait_reported(
        rig, edge, "says", {"utilization": 0.3, "mem_utilization": 0.8, "named_metrics": {"kv_cache": 0.4}}
    )
    assert reported(rig, "silent") is None
    says.headers[HEADER] = "TEXT application_utilization=0.9"
    wait_reported(rig, edge, "says", {"utilization": 0.9})
    rig.wait_until(lambda: reported(rig, "says") is None, "what is old is reported no more")
    assert edge.status()["load_reports_malformed"] == 0


def test_the_binary_header_is_read_where_there_is_no_other(rig: Rig) -> None:
    server = rig.backend("server")
    server.headers["endpoint-load-metrics-bin"] = "CQAAAAAAANA/"
    edge = serving(rig, server)
    wait_reported(rig, edge, "server", {"utilization": 0.25})
    assert edge.status()["load_reports_malformed"] == 0


def test_a_header_that_cannot_be_read_is_counted_and_disturbs_no_request(rig: Rig) -> None:
    server = rig.backend("server")
    edge = serving(rig, server)
    for value in ("TEXT cpu_utilization=much", "JSON [", "BIN C", "x" * 3000, ""):
        server.headers[HEADER] = value
        before = edge.status()["load_reports_malformed"]

        def is_counted(more_than: int = before) -> bool:
            assert edge.get().status == 200
            return bool(edge.status()["load_reports_malformed"] > more_than)

        rig.wait_until(is_counted, f"{value[:20]!r} is counted")
        assert reported(rig, "server") is None
    server.headers[HEADER] = "TEXT cpu_utilization=0.5"
    wait_reported(rig, edge, "server", {"utilization": 0.5})


def test_the_load_is_the_one_of_the_server_that_answered_after_a_retry(rig: Rig) -> None:
    says = rig.backend("says")
    says.headers[HEADER] = "TEXT cpu_utilization=0.3"
    rig.publish([("dead", rig.dead_address(), 1, "up"), ("says", says.address, 1, "up")], generation=1)
    edge = rig.edge(options="upstreams = { web = { max_fails = 0, eject = false } },")
    edge.wait_for(1)
    wait_reported(rig, edge, "says", {"utilization": 0.3})
    assert reported(rig, "dead") is None


ASKS = 'upstreams = { web = { load_metrics_format = "TEXT", retries = 2, max_fails = 0, eject = false } },'
BODIES = """
    location /unbuffered { proxy_pass http://web; proxy_request_buffering off; }
    location /guarded { auth_request /auth; proxy_pass http://web; }
    location = /auth { internal; proxy_pass http://web; proxy_pass_request_body off;
                       proxy_set_header Content-Length ""; proxy_set_header Connection ""; }
    location = /refused { client_max_body_size 1; error_page 413 = @other; proxy_pass http://web; }
    location @other { proxy_pass http://web; proxy_read_timeout 1s; }
  }
"""


def send(edge: Edge, path: str, body: Iterable[bytes] | bytes | None, **headers: str) -> int:
    """Send a request, in pieces if `body` is a list; return the status."""
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    try:
        connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


SENT: tuple[bytes | list[bytes] | None, ...] = (None, b"", b"x", b"x" * 300_000, [b"abc", b"x" * 50_000])


@pytest.mark.parametrize("retried", [False, True])
def test_servers_are_asked_for_their_load_and_get_the_request_as_it_was(rig: Rig, retried: bool) -> None:
    server = rig.backend("server")
    rows = [("server", server.address, 1, "up")]
    if retried:
        rows.append(("dead", rig.dead_address(), 1, "up"))
    rig.publish(rows, generation=1)
    edge = rig.edge(options=ASKS, servers=BODIES)
    edge.wait_for(1)
    for body in SENT:
        server.received.clear()
        for number in range(4):  # with a dead server, half of them are tried twice
            assert send(edge, f"/some/path?number={number}", body, **{"X-Header": "kept"}) == 200
        whole = b"" if body is None else body if isinstance(body, bytes) else b"".join(body)
        assert len(server.received) == 4
        for number, (path, headers, received) in enumerate(server.received):
            assert path == f"/some/path?number={number}"
            assert (headers["endpoint-load-metrics-format"], headers["x-header"]) == ("TEXT", "kept")
            assert received == whole


@pytest.mark.parametrize("path", ["/unbuffered", "/guarded", "/refused"])
def test_a_request_whose_body_nginx_has_not_is_sent_as_it_is(rig: Rig, path: str) -> None:
    server = rig.backend("server")
    rig.publish([("server", server.address, 1, "up")], generation=1)
    edge = rig.edge(options=ASKS, servers=BODIES)
    edge.wait_for(1)
    rig.wait_until(lambda: len(edge.worker_pids()) == 1, "the worker is there")
    pids = edge.worker_pids()
    for number, body in enumerate((b"x" * 300_000, b"xy", None), start=1):
        send(edge, path, body)

        # If the body was discarded (/refused) there is no good answer. The server waits for the body, and
        # records the request when nginx gives up, which may be after the client's answer.
        def is_received(number: int = number) -> bool:
            return [seen for seen, _, _ in server.received].count(path) >= number

        rig.wait_until(is_received, f"request {number} is at the server")
    assert edge.worker_pids() == pids


def test_what_a_client_asks_for_itself_is_left_as_it_is(rig: Rig) -> None:
    server = rig.backend("server")
    rig.publish([("server", server.address, 1, "up")], generation=1)
    edge = rig.edge(options=ASKS)
    edge.wait_for(1)
    assert send(edge, "/", None, **{"endpoint-load-metrics-format": "JSON"}) == 200
    assert server.received[-1][1]["endpoint-load-metrics-format"] == "JSON"


def test_no_server_is_asked_for_its_load_unless_the_option_says_so(rig: Rig) -> None:
    server = rig.backend("server")
    edge = serving(rig, server)
    edge.get()
    assert "endpoint-load-metrics-format" not in server.received[-1][1]


def test_weights_follow_what_servers_say_where_there_is_no_agent(rig: Rig) -> None:
    busy, idle = rig.backend("busy"), rig.backend("idle")
    busy.headers[HEADER] = "TEXT cpu_utilization=0.9"
    idle.headers[HEADER] = "TEXT cpu_utilization=0.3"
    with rig.controller([busy, idle]):
        edge = rig.edge(options="report_interval_s = 1, upstreams = { web = {} },")
        rig.wait_until(lambda: edge.upstream()["rung"] == "fresh", "a table of the controller")
        rows = edge.upstream()["peers"]
        assert [row["weight"] for row in rows] == [row["baseline"] for row in rows]

        def moved() -> bool:
            edge.shares(20)
            return bool(edge.peer("idle")["weight"] > 1.5 * edge.peer("busy")["weight"])

        # Both do the same work, one with a third of the CPU: it can do three times as much.
        rig.wait_until(moved, "the weights follow")
