"""A request that is long by nature is not slow: its server keeps its share of the requests afterwards."""

import http.client
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

SERVERS = 3
REQUESTS = 20 * SERVERS
SHORT = "/?sleep_s=0.005"  # so that a busy machine's delays matter less
LONG_S = 3.0
SOCKET = (
    b"GET /socket?body_s=%.1f HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    % LONG_S
)
UPGRADES = """
    location /socket {
      proxy_pass http://web; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
      header_filter_by_lua_block { require("steelyard").release() }
    }
    location /events {
      proxy_pass http://web; header_filter_by_lua_block { require("steelyard").release() }
    }
    location /buffered {
      proxy_pass http://web; body_filter_by_lua_block { require("steelyard").release() }
      proxy_buffers 2048 16k;
    }
  }
"""
OPEN_S = 300  # longer than any test; the client hangs up


PICKERS = [each.name for each in picker_list.listed() if each.by_in_flight]


def cluster(rig: Rig) -> Edge:
    """Start an nginx with an upstream for each picker, of equal servers whose latencies it knows."""
    upstreams, locations, blocks = [], "", ""
    for picker in PICKERS:
        upstreams.append(f'{picker} = {{ hash_key = "header:X-Key" }}')
        locations += UPGRADES.rpartition("location /events")[0].replace("/socket", f"/{picker}/socket")
        locations = (
            locations.replace("http://web", f"http://{picker}")
            + f"""
    location /{picker}/ {{
      proxy_pass http://{picker}; header_filter_by_lua_block {{ require("steelyard").header() }}
    }}"""
        )
        blocks += f"""
  upstream {picker} {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("{picker}") }} keepalive 64;
  }}"""
        servers = [rig.backend(f"server-{number}") for number in range(SERVERS)]
        rows = [(server.name, server.address, 1, "up") for server in servers]
        rig.publish(rows, generation=1, picker=picker, upstream=picker)
    edge = rig.edge(options=f"upstreams = {{ {', '.join(upstreams)} }},", servers=f"{locations} }} {blocks}")
    for picker in PICKERS:
        edge.wait_for(1, upstream=picker)
        edge.shares(10 * SERVERS, f"/{picker}{SHORT}")
    return edge


def answered_late(edge: Edge, upstream: str = "") -> str:
    """Ask for a slow answer (a long poll); return the server."""
    return edge.get(f"{upstream}/?sleep_s={LONG_S}").server


def streamed(edge: Edge, upstream: str = "") -> str:
    """Ask for an answer that begins at once and ends late; return the server."""
    answer = edge.get(f"{upstream}/?body_s={LONG_S}")
    assert len(answer.body) > 1
    return answer.server


def upgraded(edge: Edge, upstream: str = "") -> str:
    """Open a WebSocket until its server ends it; return the server."""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        client.sendall(SOCKET.replace(b"/socket", f"{upstream}/socket".encode()))
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    head = answer.decode().splitlines()
    assert head[0] == "HTTP/1.1 101 Switching Protocols", head
    return next(line.split(": ")[1] for line in head if line.startswith("X-Backend"))


@pytest.mark.parametrize("ask", [answered_late, streamed, upgraded])
def test_the_server_of_one_long_request_keeps_its_share(rig: Rig, ask: Callable[[Edge, str], str]) -> None:
    edge = cluster(rig)
    with ThreadPoolExecutor(len(PICKERS)) as clients:
        servers = list(clients.map(lambda picker: ask(edge, f"/{picker}"), PICKERS))
    chosen = dict(zip(PICKERS, servers, strict=True))
    for picker, server in chosen.items():
        row = partial(peer_of, edge, picker, server)
        rig.wait_until(partial(is_idle, row), "the long request is let go")
        # If it counted, a fifth of it would be in the latency at once: 600 ms. A busy machine has added 204.
        assert row()["latency_ms"] < 1000 * LONG_S / 6, picker
    for picker, server in chosen.items():
        shares = edge.shares(REQUESTS, f"/{picker}{SHORT}")
        if picker != "peak_ewma":  # it follows every difference, also of a busy machine
            assert shares.get(server, 0) >= REQUESTS / SERVERS / 2, (
                picker,
                shares,
            )  # an even part is a third


def is_idle(row: Callable[[], Any]) -> bool:
    return bool(row()["in_flight"] == 0)


def peer_of(edge: Edge, upstream: str, peer: str) -> Any:
    """Return a peer of an upstream from the status document."""
    return next(row for row in edge.upstream(upstream)["peers"] if row["id"] == peer)


def test_latency_is_the_time_to_the_header_and_none_for_an_upgrade(rig: Rig) -> None:
    only = rig.backend("only")
    rig.publish([("only", only.address, 1, "up")], generation=1)
    edge = rig.edge(servers=UPGRADES)
    edge.wait_for(1)
    upgraded(edge)
    rig.wait_until(lambda: edge.peer("only")["completed"] == 1, "the upgraded connection is counted")
    assert edge.peer("only")["latency_ms"] is None
    streamed(edge)
    rig.wait_until(lambda: edge.peer("only")["completed"] == 2, "the stream is counted")
    assert edge.peer("only")["latency_ms"] < 1000 * LONG_S / 2


def opened(edge: Edge, path: str) -> socket.socket:
    """Ask for an answer that stays open, and wait for its header; the caller hangs up."""
    client = socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S)
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n" if path.startswith("/socket") else ""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n".encode())
    assert client.recv(12).startswith(b"HTTP/1.1 ")
    return client


@pytest.mark.parametrize("picker", ["vnswrr2", "least_conn"])
@pytest.mark.parametrize("path", [f"/socket?body_s={OPEN_S}", f"/events?body_s={OPEN_S}"])
def test_the_server_of_an_open_stream_keeps_its_share(rig: Rig, path: str, picker: str) -> None:
    servers = [rig.backend(f"server-{number}") for number in range(SERVERS)]
    for server in servers:
        server.headers |= {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    rig.publish([(server.name, server.address, 1, "up") for server in servers], generation=1, picker=picker)
    edge = rig.edge(servers=UPGRADES)
    edge.wait_for(1)
    with opened(edge, path):
        assert [peer["in_flight"] for peer in edge.upstream()["peers"]] == [0] * SERVERS
        assert len(edge.shares(10 * SERVERS, SHORT)) == SERVERS


def test_a_stream_that_nobody_lets_go_of_is_in_flight(rig: Rig) -> None:
    only = rig.backend("only")
    only.headers |= {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    rig.publish([("only", only.address, 1, "up")], generation=1)
    edge = rig.edge(servers=UPGRADES)
    edge.wait_for(1)
    with opened(edge, f"/?body_s={OPEN_S}"):  # the example's header() names the server
        rig.wait_until(lambda: edge.peer("only")["in_flight"] == 1, "it is in flight")


def test_a_slow_reader_of_a_buffered_response_does_not_keep_its_server_busy(rig: Rig) -> None:
    only = rig.backend("only")
    rig.publish([("only", only.address, 1, "up")], generation=1)
    edge = rig.edge(servers=UPGRADES)
    edge.wait_for(1)
    size = 16 * 1024 * 1024  # more than the sockets' buffers, less than proxy_buffers
    with opened(edge, f"/buffered?bytes={size}"), opened(edge, f"/?bytes={size}"):
        rig.wait_until(lambda: edge.peer("only")["picks"] == 2, "both are counted")
        rig.wait_until(lambda: edge.peer("only")["in_flight"] == 0, "both are let go, one by release()")
        assert edge.peer("only")["completed"] == 0  # both are still under way


def test_a_response_that_breaks_off_is_a_failure_of_its_server(rig: Rig) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(options="upstreams = { web = { eject = false } },")
    edge.wait_for(1)
    for _ in range(3):
        with pytest.raises(http.client.IncompleteRead):
            edge.get("/?bytes=1000&cut=1000")
    with socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S) as client:  # it leaves in the middle
        client.sendall(b"GET /?bytes=50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(100)
    for _ in range(4):
        assert edge.get("/?bytes=1000").status == 200
    rig.wait_until(lambda: edge.peer("a")["completed"] >= 5, "the others are counted")
    row = edge.peer("a")
    assert (row["picks"], row["completed"], row["failed"], row["in_flight"]) == (8, 5, 3, 0)
