"""Retries: bounded, never to a server that was tried, and never of what must not be done twice."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from openresty.tests.conftest import Edge, Rig

pytestmark = pytest.mark.integration


class Rude:
    """A server that reads a request and hangs up without a word; it counts what it read."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.methods: list[str] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = connection.recv(65536)
                if request:
                    self.methods.append(request.split()[0].decode())

    def stop(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def rude(count: int) -> Iterator[list[Rude]]:
    servers = [Rude() for _ in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def ask(edge: Edge, method: str, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=20)
    try:
        connection.request(method, path, body="x" if method in ("POST", "PATCH") else None)
        return connection.getresponse().status
    finally:
        connection.close()


def fleet(servers: list[Rude]) -> list[tuple[str, str, int, str]]:
    return [(f"r{n}", server.address, 1, "up") for n, server in enumerate(servers)]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_what_may_be_done_twice_is_tried_at_three_servers_at_most(rig: Rig, method: str) -> None:
    with rude(5) as servers:
        rig.publish(fleet(servers), generation=1)
        edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },")
        edge.wait_for(1)
        assert ask(edge, method) == 502
        assert sorted(len(server.methods) for server in servers) == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_must_not_be_done_twice_is_not_sent_again(rig: Rig, method: str) -> None:
    with rude(3) as servers:
        rig.publish(fleet(servers), generation=1)
        edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },")
        edge.wait_for(1)
        assert ask(edge, method) == 502
        assert sum(len(server.methods) for server in servers) == 1


def test_it_is_when_the_configuration_asks_for_it(rig: Rig) -> None:
    with rude(3) as servers:
        rig.publish(fleet(servers), generation=1)
        location = (
            "location /again { proxy_next_upstream error timeout non_idempotent; proxy_pass http://web; } }"
        )
        edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },", servers=location)
        edge.wait_for(1)
        assert ask(edge, "POST", "/again") == 502
        assert sum(len(server.methods) for server in servers) == 3


def test_a_post_that_was_never_sent_goes_to_another_server(rig: Rig) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 999, "up")], generation=1)
    edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },")
    edge.wait_for(1)
    # The stand-in knows GET only: 501 is its own answer to a POST that reached it.
    assert ask(edge, "POST") == 501


@pytest.mark.parametrize(("retries", "tried"), [(0, 1), (1, 2), (4, 5)])
def test_the_configuration_sets_how_often(rig: Rig, retries: int, tried: int) -> None:
    with rude(5) as servers:
        rig.publish(fleet(servers), generation=1)
        edge = rig.edge(options=f"upstreams = {{ web = {{ max_fails = 0, retries = {retries} }} }},")
        edge.wait_for(1)
        assert ask(edge, "GET") == 502
        assert sum(len(server.methods) for server in servers) == tried


def test_a_status_that_the_configuration_retries_is_retried(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1)
    location = "location /again { proxy_next_upstream http_503; proxy_pass http://web; } }"
    edge = rig.edge(servers=location)
    edge.wait_for(1)
    assert ask(edge, "GET", "/again?status=503") == 503
    rig.wait_until(
        lambda: [peer["failed"] for peer in edge.upstream()["peers"]] == [1, 1], "both were asked, once"
    )
