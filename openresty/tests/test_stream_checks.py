"""TCP connections through stream {}: hashing by client, active checks, and sessions that grow old."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from openresty.tests.rig import Rig
from openresty.tests.test_stream import Greeter, Stream, needs_stream_lua
from openresty.tests.test_stream import servers as servers
from openresty.tests.test_stream import stream as stream
from testing.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, needs_stream_lua]

CLIENTS = [f"127.0.0.{last}" for last in range(2, 32)]
# Passive health and ejection are off: only the check decides.
ONLY_CHECKS = "max_fails = 0, eject = false"


def publish(rig: Rig, servers: list[Greeter], generation: int, picker: str, **members: Any) -> None:
    rows = [(one.name, one.address, 1, "up") for one in servers]
    rig.publish(rows, generation=generation, picker=picker, **members)


def connect_from(edge: Stream, client: str) -> tuple[socket.socket, str]:
    """Open a connection from an address of loopback; return it and its server."""
    connection = socket.create_connection(("127.0.0.1", edge.proxy), PATIENCE_S, (client, 0))
    return connection, connection.recv(100).decode().strip()


def homes(edge: Stream) -> dict[str, str]:
    """Return the server of each client."""
    servers = {}
    for client in CLIENTS:
        connection, servers[client] = connect_from(edge, client)
        connection.close()
    return servers


# A table may also be for http {}. A connection has no header, so its address is hashed.
@pytest.mark.parametrize("members", [{}, {"hash_key": "header:X-User"}])
@pytest.mark.parametrize("picker", ["bounded_hash", "chash"])
def test_a_client_s_connections_go_to_one_server(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter], picker: str, members: dict[str, str]
) -> None:
    publish(rig, servers, 1, picker, **members)
    edge = stream([], workers=2, settings="hash_balance_factor = 1000")
    edge.wait_for(1)
    assert (edge.upstream()["picker"], edge.upstream()["picker_error"]) == (picker, None)
    first = homes(edge)
    assert set(first.values()) == {"a", "b"}
    assert homes(edge) == first


def test_one_client_s_connections_drown_no_server(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    publish(rig, servers, 1, "bounded_hash")
    edge = stream([])
    edge.wait_for(1)
    with contextlib.ExitStack() as stack:
        names = []
        for _ in range(16):
            connection, name = connect_from(edge, CLIENTS[0])
            stack.enter_context(connection)
            names.append(name)
    assert max(names.count(name) for name in "ab") == 10  # 1.25 times half of 16


def test_a_check_takes_a_server_out_that_no_connection_has_met_and_takes_it_back(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    publish(rig, servers, 1, "vnswrr")
    edge = stream([], settings=f"check = {{ tcp = true, interval_s = 0.2, timeout_s = 1 }}, {ONLY_CHECKS}")
    edge.wait_for(1)
    host, port = servers[1].address.split(":")
    servers[1].stop()
    rig.wait_until(lambda: edge.peer("b")["health"] == "check", "the check finds that nobody listens")
    assert edge.peer("b")["picks"] == 0
    assert edge.greeted(8) == {"a": 8}
    with socket.create_server((host, int(port))):
        rig.wait_until(lambda: edge.peer("b")["health"] == "ok", "the check finds that somebody listens")


def test_a_check_asks_servers_of_http_what_http_does(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    web = rig.backend("web")
    rig.publish(
        [("web", web.address, 1, "up"), ("a", servers[0].address, 1, "up")], generation=1, picker="vnswrr"
    )
    edge = stream([], settings=f'check = {{ path = "/", interval_s = 0.2, timeout_s = 1 }}, {ONLY_CHECKS}')
    edge.wait_for(1)
    rig.wait_until(lambda: edge.peer("a")["health"] == "check", "what the greeter says is no HTTP")
    assert edge.peer("web")["health"] == "ok"


def test_connections_that_are_too_old_are_closed_wherever_they_are(
    stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    edge = stream([one.address for one in servers], settings="session_max_age_s = 2")
    for connection, _ in [edge.connect() for _ in range(4)]:
        with connection:
            assert connection.recv(1) == b""  # waits for it
    assert edge.upstream()["sessions_closed"] == 4
