"""Failing servers get no requests for a while: passive checks, ejection, active checks."""

import contextlib
import http.client
import itertools
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from steelyard_loadtest.machine import picker_list

from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

EJECT = "eject = { interval_s = 0.3, requests = 4, base_s = %g }"
CHECK = 'check = { path = "/healthz", interval_s = 0.2, timeout_s = 30, rise = 2, fall = 2 }'


def edge_with(rig: "Rig", settings: str, *, workers: int = 1) -> "Edge":
    """Start an nginx whose upstream `web` has these settings."""
    return rig.edge(options=f"upstreams = {{ web = {{ {settings} }} }},", workers=workers)


def backends(rig: "Rig", names: str, *, picker: str = "vnswrr") -> list["Backend"]:
    """Start servers of equal weight, and publish them as generation 1."""
    made = [rig.backend(name) for name in names]
    rig.publish([(one.name, one.address, 1, "up") for one in made], generation=1, picker=picker)
    return made


def wait_health(
    rig: "Rig",
    edge: "Edge",
    peer: str,
    health: str,
    *,
    eligible: bool,
    fail_open: bool = False,
    asking: bool = False,
) -> None:
    """Wait until the status has this state of a peer, and every worker leaves out as many servers.

    With `asking`, requests go on: on a busy machine a connection may fail, and only a request then probes.
    """

    def seen() -> bool:
        if asking:
            edge.get()
        status = edge.status()
        upstream = status["upstreams"]["web"]
        row = next(row for row in upstream["peers"] if row["id"] == peer)
        unhealthy = sum(row["health"] != "ok" for row in upstream["peers"])
        by_worker = [worker["serving"].get("web", {}).get("unhealthy") for worker in status["workers"]]
        return (upstream["fail_open"], row["health"], row["eligible"], by_worker) == (
            fail_open, health, eligible, [unhealthy] * edge.workers,
        )  # fmt: skip

    rig.wait_until(seen, f"{peer} is {health} in every worker")


def picks(rig: "Rig", edge: "Edge", peer: str) -> int:
    """Return the picks of a peer, after every worker has flushed its counts."""
    seen: list[int] = []

    def settled() -> bool:
        seen.append(edge.peer(peer)["picks"])
        time.sleep(0.25)  # longer than the time between two flushes
        return len(seen) > 2 and seen[-3] == seen[-1]

    rig.wait_until(settled, "the counts no longer change")
    return seen[-1]


def count(edge: "Edge", requests: int) -> dict[str, int]:
    """Send requests, and return the number that each server answered, well or not."""
    counts: dict[str, int] = {}
    for _ in range(requests):
        server = edge.get().server
        counts[server] = counts.get(server, 0) + 1
    return counts


@pytest.mark.parametrize("workers", [1, 4])
def test_a_dead_server_is_left_alone_by_every_worker(rig: "Rig", workers: int) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false", workers=workers)
    edge.wait_for(1)
    assert edge.shares(2 * workers) == {"a": 2 * workers}
    rig.wait_until(lambda: edge.get() and edge.peer("dead")["health"] == "fails", "it is found out")
    wait_health(rig, edge, "dead", "fails", eligible=False)
    before = picks(rig, edge, "dead")
    assert edge.shares(40) == {"a": 40}
    assert picks(rig, edge, "dead") == before
    assert edge.peer("dead")["health_reason"] == "a try got no answer"
    assert edge.logged(": dead (") == 1


def test_a_server_that_came_back_is_used_again_after_fail_timeout(rig: "Rig") -> None:
    a, b = backends(rig, "ab")
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 1, eject = false")
    edge.wait_for(1)
    b.stop()
    rig.wait_until(lambda: edge.get().server == a.name and edge.logged(": b (") > 0, "b is out")
    b.restart()
    # A worker that has not seen b's failure yet may send b the first request, which is then no probe.
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "ok", "b is found to be well")
    wait_health(rig, edge, "b", "ok", eligible=True, asking=True)


def test_a_server_that_stays_dead_is_tried_again_after_fail_timeout(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 0.5, eject = false")
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.logged(": dead (") >= 3, "it was taken out three times")
    assert edge.peer("dead")["failed"] <= 2 * edge.logged(": dead (")


FAST = """
location /fast { proxy_pass http://web; proxy_read_timeout 300ms; }
location /hung { proxy_pass http://web; proxy_read_timeout 1s; }
location /stream {
  proxy_pass http://web; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
  header_filter_by_lua_block { require("steelyard").release() }
} }"""


def test_a_server_that_never_answers_costs_one_request_each_fail_timeout(rig: "Rig") -> None:
    _, hung = backends(rig, "ab")
    hung.delays_s["/hung"] = 1000
    options = (
        "upstreams = { web = { max_fails = 3, fail_timeout_s = 1.5, eject = false, retry_budget = false } },"
    )
    edge = rig.edge(options=options, servers=FAST, workers=2)
    edge.wait_for(1)
    # More than max_fails, and few enough that a busy machine answers well before the time-out. If the other
    # server were out, too, both would be used.
    with edge.under_load(8, "/hung", pause_s=0.02) as statuses:
        rig.wait_until(lambda: edge.logged(": b (") >= 1, "it is out")
        rig.wait_until(lambda: edge.peer("b")["in_flight"] == 0, "what was under way there then is over")
        before, outs = len(hung.received), edge.logged(": b (")
        rig.wait_until(lambda: edge.logged(": b (") >= outs + 3, "it was out for three times more")
        asked, times = len(hung.received) - before, edge.logged(": b (") - outs
    assert asked <= times + 1
    assert set(statuses) == {200}
    assert edge.peer("b")["health_reason"] == "it did not answer again"


def test_the_first_answer_takes_a_server_back(rig: "Rig") -> None:
    _, b = backends(rig, "ab")
    options = "upstreams = { web = { max_fails = 1, fail_timeout_s = 0.5, eject = false } },"
    edge = rig.edge(options=options, servers=FAST)
    edge.wait_for(1)
    b.stop()
    rig.wait_until(lambda: edge.get().status == 200 and edge.logged(": b (") > 0, "b is out")
    b.delays_s["/fast"] = 0.2
    b.restart()
    wait_half_open(rig, edge)
    b.received.clear()
    assert edge.get("/fast").server == "b"
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.logged("answers again") == 1
    assert count(edge, 10) == {"a": 5, "b": 5}


def wait_half_open(rig: "Rig", edge: "Edge") -> None:
    """Wait until the next request is the trial for b."""
    rig.wait_until(
        lambda: (edge.peer("b")["health"], edge.peer("b")["out_for_s"]) == ("fails", None), "b is half-open"
    )


def test_a_stream_that_begins_takes_its_server_back(rig: "Rig") -> None:
    _, b = backends(rig, "ab")
    options = "upstreams = { web = { max_fails = 1, fail_timeout_s = 0.5, eject = false } },"
    edge = rig.edge(options=options, servers=FAST)
    edge.wait_for(1)
    b.stop()
    rig.wait_until(lambda: edge.get().status == 200 and edge.logged(": b (") > 0, "b is out")
    b.restart()
    wait_half_open(rig, edge)
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", f"/stream?body_s={PATIENCE_S}", headers={"Upgrade": "websocket"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["X-Backend"]) == (101, "b")
        wait_health(rig, edge, "b", "ok", eligible=True)


def test_a_server_that_is_back_starts_slowly(rig: "Rig") -> None:
    _, b = backends(rig, "ab")
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 0.5, eject = false, slow_start_s = 8")
    edge.wait_for(1)
    b.stop()
    rig.wait_until(lambda: edge.get().status == 200 and edge.logged(": b (") > 0, "b is out")
    b.restart()
    rig.wait_until(lambda: edge.get() and edge.logged("answers again"), "b has answered")
    shares: list[float] = []

    def whole() -> bool:
        shares.append(edge.peer("b")["share"])
        return shares[-1] == 0.5

    rig.wait_until(whole, "b has its whole share")
    grown = [share for share in shares if share > 0]  # at 0 the workers have not noticed the answer yet
    assert grown[0] < 0.35
    assert grown == sorted(grown)
    assert count(edge, 10) == {"a": 5, "b": 5}


def test_below_the_panic_threshold_all_are_used(rig: "Rig") -> None:
    _, b, c, d = backends(rig, "abcd")
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false, panic_threshold = 0.5")
    edge.wait_for(1)
    for dead, fail_open in ((b, False), (c, False), (d, True)):
        dead.stop()
        noted = f": {dead.name} ("
        while not edge.logged(noted):
            assert edge.get().server != dead.name
        wait_health(rig, edge, dead.name, "fails", eligible=fail_open, fail_open=fail_open)
    assert (
        edge.logged("1 of 4 servers are healthy, less than panic_threshold = 0.5, so all of them are used")
        == 1
    )


def test_so_many_failures_are_forgiven(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 5, fail_timeout_s = 60, eject = false")
    edge.wait_for(1)
    edge.shares(8)
    assert picks(rig, edge, "dead") == 4
    assert edge.peer("dead")["health"] == "ok"
    edge.shares(20)
    wait_health(rig, edge, "dead", "fails", eligible=False)
    assert picks(rig, edge, "dead") >= 5
    assert edge.peer("dead")["health_reason"] == "5 tries got no answer"


def test_an_answer_of_500_is_no_reason_for_max_fails(rig: "Rig") -> None:
    a, b = backends(rig, "ab")
    b.statuses["/"] = 500
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false")
    edge.wait_for(1)
    assert count(edge, 20) == {"a": 10, "b": 10}
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert a.name == "a"


def test_a_peer_that_moves_to_another_address_begins_anew(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([("a", a.address, 1, "up"), ("b", rig.dead_address(), 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false", workers=4)
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "fails", "b is out")
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=2)
    edge.wait_for(2)
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.shares(40).keys() == {"a", "b"}


def test_a_mark_follows_the_id_when_other_peers_come_and_go(rig: "Rig") -> None:
    a, dead = rig.backend("a"), rig.dead_address()
    rig.publish([("a", a.address, 1, "up"), ("dead", dead, 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false")
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.peer("dead")["health"] == "fails", "it is out")
    rig.publish(
        [("a", a.address, 1, "up"), ("b", rig.backend("b").address, 1, "up"), ("dead", dead, 1, "up")],
        generation=2,
    )
    edge.wait_for(2)
    wait_health(rig, edge, "dead", "fails", eligible=False)
    wait_health(rig, edge, "b", "ok", eligible=True)


def test_a_reload_keeps_the_marks(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 1, "up")], generation=1)
    edge = edge_with(rig, "max_fails = 1, fail_timeout_s = 60, eject = false", workers=2)
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.peer("dead")["health"] == "fails", "it is out")
    edge.reload()
    wait_health(rig, edge, "dead", "fails", eligible=False)
    assert edge.shares(20) == {"a": 20}


@pytest.mark.parametrize("picker", picker_list.own())
def test_a_server_that_fails_at_once_wins_nothing_by_it(rig: "Rig", picker: str) -> None:
    for one in backends(rig, "abc", picker=picker):
        if one.name == "b":
            one.statuses["/"] = 500
    edge = edge_with(rig, EJECT % 60 + ', hash_key = "header:X-Key"')  # no request has it
    edge.wait_for(1)
    assert count(edge, 300).get("b", 0) <= 100  # its weight's share
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "ejected", "it is ejected")
    wait_health(rig, edge, "b", "ejected", eligible=False)
    assert "b" not in edge.shares(30)
    assert "tries failed, and 0 of" in edge.peer("b")["health_reason"]


def test_further_statuses_count_as_failures_where_the_upstream_says_so(rig: "Rig") -> None:
    made = backends(rig, "abc")
    made[1].statuses["/"] = 429
    edge = edge_with(rig, EJECT % 60 + ", failure_statuses = { 429, 404 }")
    edge.wait_for(1)
    assert {edge.get().status for _ in range(3)} == {200, 429}  # the client gets the server's answer
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "ejected", "it is ejected")
    assert (edge.peer("b")["completed"], edge.peer("a")["failed"]) == (0, 0)


def test_they_count_in_a_retry_too(rig: "Rig") -> None:
    made = backends(rig, "ab")
    made[1].statuses["/"] = 429
    location = "location = /again { proxy_next_upstream error http_429; proxy_pass http://web/; } }"
    options = "upstreams = { web = { eject = false, failure_statuses = { 429 } } },"
    edge = rig.edge(options=options, servers=location)
    edge.wait_for(1)
    assert {edge.get("/again").status for _ in range(10)} == {200}
    rig.wait_until(lambda: edge.peer("a")["completed"] == 10, "all are counted")
    assert (edge.peer("b")["failed"], edge.peer("b")["completed"]) == (5, 0)


def test_an_ejection_ends_in_every_worker(rig: "Rig") -> None:
    made = backends(rig, "abc")
    made[1].statuses["/"] = 500
    edge = edge_with(rig, EJECT % 1, workers=4)
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.logged("is ejected for 1 s") > 0, "b is ejected")
    made[1].statuses.clear()
    rig.wait_until(lambda: edge.get() and edge.logged("is back, on probation") > 0, "b is back")
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert set(edge.shares(60)) == {"a", "b", "c"}


def test_an_ejection_lasts_longer_the_second_time(rig: "Rig") -> None:
    made = backends(rig, "abc")
    made[1].statuses["/"] = 500
    edge = edge_with(rig, EJECT % 0.5)
    edge.wait_for(1)
    rig.wait_until(lambda: edge.get() and edge.logged("is ejected for 1 s") > 0, "b is ejected again")
    assert edge.logged("is ejected for 0.5 s") == 1


def test_a_server_is_ejected_though_others_come_and_go(rig: "Rig") -> None:
    made = [rig.backend(name) for name in "abcde"]
    made[1].statuses["/"] = 500
    rows = [(one.name, one.address, 1, "up") for one in made]
    edge = edge_with(rig, EJECT % 60, workers=2)

    def ejected_after_a_change() -> bool:
        generation = next(generations)
        rig.publish(rows[:3] + rows[3 + generation % 2 :], generation=generation)
        return bool(count(edge, 30)) and edge.logged("b (" + made[1].address + ") is ejected") > 0

    generations = itertools.count(2)
    rig.publish(rows, generation=1)
    edge.wait_for(1)
    rig.wait_until(ejected_after_a_change, "b is ejected")
    assert edge.logged("is ejected") == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_nobody_is_ejected_when_all_fail_alike(rig: "Rig", workers: int) -> None:
    for one in backends(rig, "abc"):
        one.statuses["/"] = 500
    edge = edge_with(rig, EJECT % 60, workers=workers)
    edge.wait_for(1)
    for _ in range(8):
        assert sum(count(edge, 30).values()) == 30
        time.sleep(0.2)
        assert {row["health"] for row in edge.upstream()["peers"]} == {"ok"}


def test_at_most_a_third_of_the_servers_are_ejected_at_once(rig: "Rig") -> None:
    for one in backends(rig, "abc"):
        if one.name != "a":
            one.statuses["/"] = 500
    edge = edge_with(rig, EJECT % 60)
    edge.wait_for(1)

    def ejected() -> list[str]:
        return [row["id"] for row in edge.upstream()["peers"] if row["health"] == "ejected"]

    rig.wait_until(lambda: count(edge, 20) and ejected(), "one is ejected")
    for _ in range(6):
        count(edge, 20)
        time.sleep(0.2)
        assert len(ejected()) == 1


@pytest.mark.parametrize("workers", [1, 4])
def test_a_check_takes_a_server_out_though_its_requests_succeed(rig: "Rig", workers: int) -> None:
    a, b = backends(rig, "ab")
    edge = edge_with(rig, f"{CHECK}, eject = false", workers=workers)
    edge.wait_for(1)
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.shares(20 * workers).keys() == {"a", "b"}
    b.statuses["/healthz"] = 503
    wait_health(rig, edge, "b", "check", eligible=False)
    assert edge.peer("b")["health_reason"] == "answered 503, wants 200-399"
    assert edge.shares(20) == {"a": 20}
    b.statuses.clear()
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.shares(20 * workers).keys() == {"a", "b"}
    assert edge.logged("b (" + b.address + ") falls: answered 503, wants 200-399") == 1
    assert edge.logged("b (" + b.address + ") rises: its checks succeed") == 1
    assert edge.logged("a (" + a.address + ")") == 0


def test_a_check_finds_a_server_that_is_not_there(rig: "Rig") -> None:
    a, b = backends(rig, "ab")
    # Before nginx starts: a check in that very moment would be closed, not refused.
    b.stop()
    edge = edge_with(rig, f"{CHECK}, max_fails = 0, eject = false")
    edge.wait_for(1)
    wait_health(rig, edge, "b", "check", eligible=False)
    assert edge.peer("b")["health_reason"] == "connection refused"
    b.restart()
    wait_health(rig, edge, "b", "ok", eligible=True)
    assert edge.shares(20) == {"a": 10, "b": 10}
    assert a.name == "a"


def test_servers_that_drain_are_checked_and_those_that_are_down_are_not(rig: "Rig") -> None:
    a, dead = rig.backend("a"), rig.dead_address()
    states = ["up", "drain", "down", "backup"]
    rig.publish([("a", a.address, 1, "up"), *((state, dead, 1, state) for state in states[1:])], generation=1)
    edge = edge_with(rig, f"{CHECK}, eject = false")
    edge.wait_for(1)
    wait_health(rig, edge, "drain", "check", eligible=False)
    wait_health(rig, edge, "backup", "check", eligible=False)
    wait_health(rig, edge, "down", "ok", eligible=False)


def test_when_all_are_unhealthy_all_are_used(rig: "Rig") -> None:
    made = backends(rig, "ab")
    edge = edge_with(rig, f"{CHECK}, eject = false", workers=4)
    edge.wait_for(1)
    for one in made:
        one.statuses["/healthz"] = 500
    for one in made:
        wait_health(rig, edge, one.name, "check", eligible=True, fail_open=True)
    assert edge.shares(40).keys() == {"a", "b"}
    for one in made:
        one.statuses.clear()
    for one in made:
        wait_health(rig, edge, one.name, "ok", eligible=True)
    assert edge.shares(40).keys() == {"a", "b"}


Behaviour = Callable[[socket.socket, bytes], object]


@contextlib.contextmanager
def server_that(behaves: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Listen, and call `behaves` with each connection after its request."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def answer(plain: socket.socket) -> None:
        with plain, contextlib.suppress(OSError):
            connection = tls.wrap_socket(plain, server_side=True) if tls else plain
            with connection:
                taken.append(connection)
                behaves(connection, connection.recv(65536))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in taken:  # a silent one would go on for ever
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def says(text: str) -> Behaviour:
    """Return a behaviour that sends a text and hangs up."""
    return lambda connection, _: connection.sendall(text.encode())


def repeats(text: str, pause_s: float = 0, first: str = "HTTP/1.1 200 OK\r\n") -> Behaviour:
    """Return a behaviour that repeats a text until the other end hangs up."""

    def behave(connection: socket.socket, _: bytes) -> None:
        connection.sendall(first.encode())
        while True:
            connection.sendall(text.encode())
            time.sleep(pause_s)

    return behave


HTTP = """
  lua_socket_log_errors off;
  server { listen 127.0.0.1:@PORT@; location / { content_by_lua_block {
    local answer, err = require("steelyard.io.http_client").get{
      host = "127.0.0.1", port = tonumber(ngx.var.arg_port), path = "/",
      timeout_ms = tonumber(ngx.var.arg_timeout_ms),
      max_bytes = 100000,
    }
    ngx.say(answer and answer.status .. " " .. answer.body or "no answer: " .. err)
  } } }
"""


ANSWERS: list[tuple[Behaviour, str]] = [
    (says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), "200 hi"),
    (says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more"), "200 hi"),
    (says("HTTP/1.0 404 Not Found\r\n\r\nuntil the end"), "404 until the end"),
    (says("HTTP/1.1 304\r\nContent-Length: 50\r\n\r\n"), "304 "),
    (says(""), "no answer: closed without an answer"),
    (says("HTTP/1.1 200 OK\r\n"), "no answer: closed without an answer"),
    (says("SSH-2.0-OpenSSH\r\n"), "no answer: an answer that is not HTTP"),
    (says("HTTP/1.1 20 OK\r\n\r\n"), "no answer: an answer that is not HTTP"),
    (says("HTTP/1.1 2000 OK\r\n\r\n"), "no answer: an answer that is not HTTP"),
    (says("HTTP/1.1 100 Continue\r\n\r\n"), "no answer: an answer that is not HTTP"),
    (says("HTTP/1.1 200 OK\r\n folded\r\n\r\n"), "no answer: a header line without a name"),
    (
        says("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi"),
        "no answer: a Content-Length that is no number",
    ),
    (
        says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!"),
        "no answer: a Content-Length that is no number",
    ),
    (
        says("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"),
        "no answer: closed in the middle of the body",
    ),
    (
        says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "no answer: a Transfer-Encoding, which HTTP/1.0 has not",
    ),
    (repeats("X: y\r\n" * 1000), "no answer: more than 8192 bytes of headers"),
    (repeats("x" * 10000), "no answer: more than 8192 bytes of headers"),
    (repeats("x" * 10000, first="HTTP/1.1 200 OK\r\n\r\n"), "no answer: more than 100000 bytes of body"),
    (repeats("x", 0.02), "no answer: timeout"),
    (repeats("x", 0.02, first="HTTP/1.1 200 OK\r\n\r\n"), "no answer: timeout"),
    (repeats("", 0.02, first=""), "no answer: timeout"),
]


def test_an_http_answer_is_taken_or_refused_whatever_comes(rig: "Rig") -> None:
    edge = rig.edge_of(HTTP)
    for number, (behaves, comes_to) in enumerate(ANSWERS):
        with server_that(behaves) as address:
            timeout_ms = 500 if comes_to.endswith("timeout") else 30_000
            path = f"/?port={address.rpartition(':')[2]}&timeout_ms={timeout_ms}"
            assert edge.get(path).body == comes_to + "\n", number
