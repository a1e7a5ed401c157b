"""The examples beyond plain requests, each on real connections."""

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import started as started
from testing.certificates import Authority
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

OPEN_S = 300  # longer than any test; the client hangs up
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\n"


def publish(rig: Rig, edge: Edge, servers: list[Backend], generation: int, upstream: str = "web") -> None:
    """Publish a table of servers of one weight, and wait until it is served."""
    rows = [(server.name, server.address, 1, "up") for server in servers]
    rig.publish(rows, generation=generation, upstream=upstream, picker="least_conn")
    edge.wait_for(generation, upstream=upstream)


def total(edge: Edge, field: str, upstream: str = "web") -> int:
    """Return the sum of a count over an upstream's servers."""
    return sum(row[field] for row in edge.upstream(upstream)["peers"])


@contextlib.contextmanager
def opened(edge: Edge, path: str, headers: str = "") -> Iterator[tuple[socket.socket, list[str]]]:
    """Ask for an answer that stays open; yield the connection, and the lines of the header."""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        client.sendall(f"GET {path}?body_s={OPEN_S} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = client.recv(1)
            assert piece, head
            head += piece
        yield client, head.decode().splitlines()


def test_open_connections_carry_what_is_sent_at_once_and_are_no_load(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("websockets.conf")
    x, y, z = (rig.backend(name) for name in "xyz")
    publish(rig, edge, [x], 1)
    x.headers["Content-Type"] = "text/event-stream"
    with contextlib.ExitStack() as stack:
        for number in range(8):
            client, head = stack.enter_context(opened(edge, "/ws/", UPGRADE))
            assert (head[0], "X-Steelyard-Server: x" in head) == ("HTTP/1.1 101 Switching Protocols", True)
            client.sendall(b"frame %d" % number)
            assert client.recv(100) == b"frame %d" % number
        for _ in range(4):
            client, head = stack.enter_context(opened(edge, "/events/"))
            assert (head[0], "X-Steelyard-Server: x" in head) == ("HTTP/1.1 200 OK", True)
            assert client.recv(1) == b"."  # the first event, of a body that goes on

        assert edge.peer("x")["in_flight"] == 0
        publish(rig, edge, [x, y, z], 2)
        assert edge.shares(30)["x"] >= 5  # an even part is 10, and 0 if open connections were load
    rig.wait_until(lambda: total(edge, "completed") == 30 + 12, "all have ended")
    row = edge.peer("x")
    assert (row["failed"], row["completed"] - row["timed"]) == (0, 8)  # an upgrade has no latency


def test_what_asks_for_an_upgrade_elsewhere_is_an_ordinary_request(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("websockets.conf")
    server = rig.backend("x")
    publish(rig, edge, [server], 1)
    assert edge.get("/", {"Upgrade": "websocket", "Connection": "Upgrade"}).status == 200
    assert "upgrade" not in server.received[-1][1]


def test_tls_servers_are_known_by_their_name_and_asked_over_few_handshakes(
    rig: Rig, started: Callable[..., Edge], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    folder = tmp_path / "nginx"
    (folder / "servers-ca.pem").write_bytes(authority.path.read_bytes())
    edge = started("tls.conf", workers=1)
    right, other = authority.server("web.example.com"), authority.server("other.example.com")
    x, y, impostor = rig.backend("x", right), rig.backend("y", right), rig.backend("impostor", other)
    told: list[str | None] = []
    right.sni_callback = lambda _socket, name, _context: told.append(name)
    publish(rig, edge, [x, y, impostor], 1)

    assert set(edge.shares(60)) == {"x", "y"}
    assert impostor.received == []
    assert edge.logged("upstream SSL certificate does not match") >= 3  # max_fails
    rig.wait_until(
        lambda: edge.shares(3) and edge.peer("impostor")["health"] == "fails", "the impostor is out"
    )
    assert len(told) == right.session_stats()["accept_good"] == 2  # a connection to each
    assert set(told) == {"web.example.com"}


def test_a_new_connection_resumes_no_session_where_lua_chose_its_server(rig: Rig, tmp_path: Path) -> None:
    # As in tls.conf: ngx_lua resumes no session. nginx's own upstream shows that the server would.
    tls = Authority(tmp_path).server("x")
    x = rig.backend("x", tls)
    servers = f"""
      location /chosen {{ proxy_pass https://web; proxy_set_header Connection close; }}
      location /own {{ proxy_pass https://own; proxy_set_header Connection close; }}
    }}
    upstream own {{ server {x.address}; }}
    """
    edge = rig.edge(bootstrap=[x.address], servers=servers)
    assert edge.shares(5, "/own") == {"x": 5}
    resumed = tls.session_stats()["hits"]
    assert resumed > 0
    assert edge.shares(5, "/chosen") == {"x": 5}
    assert tls.session_stats()["hits"] == resumed
    assert tls.session_stats()["accept_good"] == 10


def test_a_failing_shadow_gets_copies_and_disturbs_nothing(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("several-upstreams.conf")
    x, y, shadow = (rig.backend(name) for name in ("x", "y", "shadow"))
    publish(rig, edge, [x, y], 1)
    publish(rig, edge, [shadow], 1, upstream="shadow")
    shadow.statuses["/failing"] = 500

    assert set(edge.shares(200, "/failing?n=1")) == {"x", "y"}
    rig.wait_until(lambda: total(edge, "completed") == 200, "all are counted")
    assert (total(edge, "picks"), total(edge, "failed"), edge.upstream()["subrequests"]) == (200, 0, 0)

    copies = len(shadow.received)  # a tenth, by chance
    assert 0 < copies < 200
    assert {path for path, _, _ in shadow.received} == {"/failing?n=1"}
    rig.wait_until(lambda: total(edge, "failed", "shadow") == copies, "each copy's outcome is counted")
    status = edge.upstream("shadow")
    assert (status["subrequests"], status["subrequests_counted"]) == (copies, copies)
    assert (total(edge, "picks", "shadow"), total(edge, "in_flight", "shadow")) == (copies, 0)


def test_a_copy_that_lasts_keeps_neither_the_client_nor_the_server(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    longer = {"10% 1;": "100% 1;", "proxy_read_timeout 2s;": f"proxy_read_timeout {OPEN_S}s;"}
    edge = started("several-upstreams.conf", instead=longer)
    x, shadow = rig.backend("x"), rig.backend("shadow")
    publish(rig, edge, [x], 1)
    publish(rig, edge, [shadow], 1, upstream="shadow")
    shadow.delays_s["/slow"] = OPEN_S

    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/slow", body=b"an order")
        assert connection.getresponse().read() == b""
        rig.wait_until(lambda: len(shadow.received) == 1, "the copy is under way")
        assert [body for _, _, body in x.received + shadow.received] == [b"an order"] * 2
        rig.wait_until(lambda: total(edge, "picks") == 1, "the request is counted")
        # nginx has not ended the request, because the copy is a part of it.
        assert (total(edge, "completed"), total(edge, "in_flight")) == (0, 0)
