"""The time-outs of an upstream: they hold at each of its servers, and override the location's."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_health import server_that
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Listen at an address that takes a request and never answers."""
    with server_that(lambda connection, _: connection.recv(1)) as address:
        yield address


@contextlib.contextmanager
def full() -> Iterator[str]:
    """Listen at an address that neither accepts nor refuses further connections."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # no accept: the first connection fills the queue, and later ones get no answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def edge_of(rig: Rig, addresses: list[str], timeout: str) -> Edge:
    """Start an nginx with a time-out in its upstream; the location /patient/ waits longer than any test."""
    listed = ", ".join(f'"{address}"' for address in addresses)
    patient = "proxy_connect_timeout 300s; proxy_send_timeout 300s; proxy_read_timeout 300s;"
    return rig.edge(
        options=f"upstreams = {{ web = {{ bootstrap = {{{listed}}}, {timeout} = 0.2 }} }},",
        servers=f"client_max_body_size 0; location /patient/ {{ {patient} proxy_pass http://web/; }} }}",
    )


@pytest.mark.parametrize(("hangs", "timeout"), [(silent, "read_timeout_s"), (full, "connect_timeout_s")])
def test_a_server_that_hangs_is_left_for_another(
    rig: Rig, hangs: Callable[[], contextlib.AbstractContextManager[str]], timeout: str
) -> None:
    with hangs() as hung:
        edge = edge_of(rig, [hung, rig.backend("a").address], timeout)
        rig.wait_until(
            lambda: edge.shares(1, "/patient/") and edge.peer(hung)["failed"] > 0, "the time-out is a failure"
        )
        assert edge.logged("timed out") > 0


def test_a_server_that_reads_no_body_is_left(rig: Rig) -> None:
    over = threading.Event()
    with server_that(lambda *_: over.wait(PATIENCE_S)) as address:
        edge = edge_of(rig, [address], "send_timeout_s")
        client = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
        with contextlib.closing(client):
            client.request("POST", "/patient/", bytes(50_000_000))
            assert client.getresponse().status == 504
        over.set()


def test_each_try_has_its_time(rig: Rig) -> None:
    with silent() as one, silent() as other:
        edge = edge_of(rig, [one, other], "read_timeout_s")
        assert edge.get("/patient/").status == 504
        assert edge.logged("timed out") == 2
