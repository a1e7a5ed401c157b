"""Retries: bounded, to untried servers only, and never of requests that may not be done twice."""

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


class Rude:
    """A server that reads a request and hangs up without an answer; it counts the requests.

    With `answer` it sends that first, and with `holds` it hangs up when it is stopped.
    """

    def __init__(self, answer: bytes = b"", *, holds: bool = False) -> None:
        self._answer = answer
        self._held = contextlib.ExitStack()
        self._holds = holds
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
            with contextlib.ExitStack() as stack:
                stack.enter_context(connection)
                request = connection.recv(65536)
                if request:
                    self.methods.append(request.split()[0].decode(errors="replace"))
                    connection.sendall(self._answer)
                    if self._holds:
                        self._held.push(stack.pop_all())

    def stop(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._held.close()


@contextmanager
def rude(count: int, answer: bytes = b"", *, holds: bool = False) -> Iterator[list[Rude]]:
    servers = [Rude(answer, holds=holds) for _ in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def ask(edge: Edge, method: str, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
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
    assert ask(edge, "POST") == 200
    assert [body for _, _, body in a.received] == [b"x"]  # it reached the stand-in, once


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


NON_IDEMPOTENT = ("POST", "LOCK", "PATCH", "NOTIFY")  # nginx is unaware of the last one
# Failures of servers after they have read the request, and the client's status.
AFTER_IT_WAS_SENT = {
    "hung up": (b"", False, 502),
    "no answer in time": (b"", True, 504),
    "503": (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False, 503),
}
ON_ALL = (
    "location /on-all {{ {directives} proxy_next_upstream error timeout http_503; proxy_pass http://web; }}"
)


@pytest.mark.parametrize("failure", AFTER_IT_WAS_SENT)
def test_what_failed_after_it_was_sent_is_sent_again_if_that_changes_nothing(rig: Rig, failure: str) -> None:
    answer, holds, status = AFTER_IT_WAS_SENT[failure]
    again = 'upstreams = { web = { max_fails = 0, eject = false, idempotent_methods = { "PURGE" } } },'
    location = ON_ALL.format(directives="proxy_read_timeout 500ms;")
    with rude(3, answer, holds=holds) as servers:
        rig.publish(fleet(servers), generation=1)
        edge = rig.edge(options=again, servers=location + "}")
        edge.wait_for(1)
        for method in (*NON_IDEMPOTENT, "GET", "DELETE", "PROPFIND", "PURGE"):
            assert ask(edge, method, "/on-all") == status
        due = sorted([*NON_IDEMPOTENT, *["GET", "DELETE", "PROPFIND", "PURGE"] * 3])

        def received() -> list[str]:
            return sorted(method for server in servers for method in server.methods)

        # A server that nginx no longer waits for may record the request after the client's answer.
        rig.wait_until(lambda: len(received()) >= len(due), "all tries are at the servers")
        assert received() == due


@pytest.mark.parametrize("method", NON_IDEMPOTENT)
def test_what_was_never_sent_goes_to_the_next_server_whatever_it_is(rig: Rig, method: str) -> None:
    peers = [(f"dead-{n}", rig.dead_address(), 1, "up") for n in range(3)]
    rig.publish(peers, generation=1)
    edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },")
    edge.wait_for(1)
    assert ask(edge, method) == 502
    rig.wait_until(lambda: [peer["failed"] for peer in edge.upstream()["peers"]] == [1] * 3, "all were tried")


@pytest.mark.parametrize("protocol", ["grpc", "uwsgi", "fastcgi", "scgi"])
def test_no_protocol_sends_again_what_must_not_be_done_twice(rig: Rig, protocol: str) -> None:
    passed = "grpc_pass grpc://web;" if protocol == "grpc" else f"{protocol}_pass web;"
    with rude(3) as servers:
        rig.publish(fleet(servers), generation=1)
        location = f"location /other {{ {passed} }} }}"
        edge = rig.edge(options="upstreams = { web = { max_fails = 0 } },", servers=location)
        edge.wait_for(1)
        for method, times in (("POST", 1), ("NOTIFY", 1), ("GET", 3)):
            before = sum(len(server.methods) for server in servers)
            assert ask(edge, method, "/other") == 502
            assert sum(len(server.methods) for server in servers) - before == times


OUTAGE = "max_fails = 0, eject = false"


def test_an_outage_is_not_doubled_by_retries(rig: Rig) -> None:
    requests = 400
    with rude(3) as servers:
        rig.publish(fleet(servers), generation=1)
        options = f"upstreams = {{ web = {{ {OUTAGE}, retry_budget = {{ share = 0.2, min_per_s = 0 }} }} }},"
        edge = rig.edge(options=options, workers=2)
        edge.wait_for(1)
        assert {ask(edge, "GET") for _ in range(requests)} == {502}
        received = sum(len(server.methods) for server in servers)
        assert requests * 1.1 < received <= requests * 1.2
        web = edge.upstream()
        assert web["retries"] == received - requests
        # Every request that was not refused had both of its retries.
        rig.wait_until(
            lambda: edge.upstream()["retries_refused"] >= requests - web["retries"] / 2,
            "refusals are counted",
        )
        assert 0 < edge.logged("the retry budget is spent, failed requests are not tried again") < 40


def test_without_a_budget_every_request_has_its_retries(rig: Rig) -> None:
    with rude(3) as servers:
        rig.publish(fleet(servers), generation=1)
        edge = rig.edge(options=f"upstreams = {{ web = {{ {OUTAGE}, retry_budget = false }} }},")
        edge.wait_for(1)
        assert {ask(edge, "GET") for _ in range(100)} == {502}
        assert sum(len(server.methods) for server in servers) == 300
        assert edge.upstream()["retry_budget"] is None


def test_a_refused_retry_ends_with_the_status_of_its_failure(rig: Rig) -> None:
    servers = [rig.backend(name) for name in "ab"]
    for server in servers:
        server.statuses["/on-all"] = 503
    rig.publish([(server.name, server.address, 1, "up") for server in servers], generation=1)
    options = f"upstreams = {{ web = {{ {OUTAGE}, retry_budget = {{ share = 0, min_per_s = 0 }} }} }},"
    edge = rig.edge(options=options, servers=ON_ALL.format(directives="") + "}")
    edge.wait_for(1)
    refused = edge.get("/on-all")
    assert refused.status == 503
    assert refused.json()["detail"].endswith(" answered 503; the retry budget is spent")
    # From now on no request gets a second try, so the client gets the server's own answer.
    own = edge.get("/on-all")
    assert own.status == 503
    assert own.server in ("a", "b")
    rig.wait_until(
        lambda: sum(peer["failed"] for peer in edge.upstream()["peers"]) == 2, "each was tried once"
    )
    assert edge.upstream()["retries_refused"] == 1


def test_one_server_of_three_that_fails_costs_no_request(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    with rude(1) as servers:
        peers = [("a", a.address, 1, "up"), ("b", b.address, 1, "up"), ("rude", servers[0].address, 1, "up")]
        rig.publish(peers, generation=1)
        edge = rig.edge(workers=2)
        edge.wait_for(1)
        assert sum(edge.shares(300).values()) == 300
        web = edge.upstream()
        assert web["retries"] == len(servers[0].methods) > 0
        assert web["retries_refused"] == 0


def test_a_try_that_was_refused_is_no_try(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    a.statuses["/once"] = 503
    rig.publish([("a", a.address, 999, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = rig.edge(
        options="upstreams = { web = { eject = false } },",
        servers="""
            location /once {
                proxy_pass http://web; proxy_next_upstream http_503; error_page 502 503 = @again;
            }
            location @again { rewrite ^ /twice break; proxy_pass http://web; }
        }""",
    )
    edge.wait_for(1)
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
        connection.request("PURGE", "/once")  # not sent twice
        assert connection.getresponse().status == 200
        connection.close()
    rig.wait_until(lambda: edge.peer("a")["failed"] == 5, "the first tries are counted")
    assert (edge.peer("a")["completed"], edge.peer("b")["picks"]) == (5, 0)
