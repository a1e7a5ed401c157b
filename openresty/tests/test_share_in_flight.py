"""Load balancers exchange their requests in flight through Memcached; and the faults of that exchange."""

import contextlib
import os
import signal
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from testing.handler_server import Prompt
from testing.waiting import wait_until

pytestmark = pytest.mark.integration

ZERO = 4294967296  # a counter's start
PREFIX = "steelyard:1:in_flight:"
DRIP_S = 0.04  # below the time-out of a read
ANSWER_S = 0.05  # of the servers: longer than the age of the figures
BALANCERS = ["edge-1", "edge-2"]  # as tables name them


class Between:
    """A proxy to Memcached: `mode` is open, old (no meta commands), silent, shut, or drips.

    With drips, an answer comes a byte each 0.04 s; `drips_after` is the length that comes at once.
    """

    drips_after = 0

    def __init__(self, port: int) -> None:
        self.mode = "open"
        between = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                if between.mode == "shut":
                    return
                way = socket.create_connection(("127.0.0.1", port))
                with way as upstream, upstream.makefile("rb") as answers:
                    back = threading.Thread(target=self.answer, args=(answers,), daemon=True)
                    back.start()
                    for line in self.rfile:
                        meta = line.startswith((b"ma ", b"mn"))
                        if between.mode == "shut":
                            break
                        if meta and between.mode == "old":
                            self.wfile.write(b"ERROR\r\n")
                        elif not (meta and between.mode == "silent"):
                            upstream.sendall(line)
                    upstream.shutdown(socket.SHUT_RDWR)
                    back.join()

            def answer(self, answers: Any) -> None:
                with contextlib.suppress(OSError):
                    while piece := answers.read1(65536):
                        if between.mode == "drips":
                            self.wfile.write(piece[: between.drips_after])
                            for byte in piece[between.drips_after :]:
                                time.sleep(DRIP_S)
                                self.wfile.write(bytes([byte]))
                        else:
                            self.wfile.write(piece)

        class Server(Prompt, socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def between(rig: Rig) -> Iterator[Between]:
    """Return a proxy to the rig's memcached."""
    made = Between(rig.memcached.port)
    yield made
    made.close()


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    """Return the threads of some clients."""
    with ThreadPoolExecutor(40) as pool:
        yield pool


def servers(rig: Rig, names: str = "ab") -> list[Backend]:
    """Start servers that answer after ANSWER_S, and publish them with the default picker."""
    made = [rig.backend(name) for name in names]
    for backend in made:
        backend.delays_s["/"] = ANSWER_S
    publish(rig, made, generation=1)
    return made


def publish(
    rig: Rig, made: list[Backend], *, generation: int, reporters: list[str] = BALANCERS, upstream: str = "web"
) -> None:
    """Publish servers with the default picker in a table that names these load balancers."""
    rows = [(each.name, each.address, 10, "up") for each in made]
    rig.publish(rows, generation=generation, picker="vnswrr2", reporters=reporters, upstream=upstream)


def balancer(
    rig: Rig, name: str, *, port: int = 0, workers: int = 1, option: str = "true", more: str = ""
) -> Edge:
    """Start an nginx of this name that may share its requests in flight."""
    options = f"share_in_flight = {option}, upstreams = {{ web = {{}} }}, {more}"
    http = one_upstream(port or rig.memcached.port, options, "}").replace('lb = "edge-1"', f'lb = "{name}"')
    edge = rig.edge_of(http, workers=workers, folder=name)
    edge.wait_for(1)
    return edge


def exchange(edge: Edge) -> Any:
    """Return the exchange's state on the status page."""
    return edge.status()["share_in_flight"]


def wait_for_state(rig: Rig, edge: Edge, *states: str) -> None:
    """Wait until the exchange is in one of these states."""
    rig.wait_until(lambda: exchange(edge)["state"] in states, f"the exchange is {' or '.join(states)}")


def others(edge: Edge) -> dict[str, Any]:
    """Return an nginx's figures of others' requests in flight, by server."""
    return {peer["id"]: peer["others_in_flight"] for peer in edge.upstream()["peers"]}


def epoch(rig: Rig) -> str:
    """Return the epoch of the exchange; between two, wait for the next one."""
    return wait_until(lambda: rig.memcached.get(f"{PREFIX}epoch"), "nobody begins an epoch").decode()


def of_others(edge: Edge) -> int:
    """Return an nginx's figure of all others' requests in flight."""
    return sum(filter(None, others(edge).values()))


def pretend(rig: Rig, address: str, in_flight: str | int) -> str:
    """Act as another load balancer with requests in flight at a server, in this epoch, and return that."""
    now = epoch(rig)
    rig.memcached.set(f"{PREFIX}{now}", "9")
    value = in_flight if isinstance(in_flight, str) else str(ZERO + in_flight)
    rig.memcached.set(f"{PREFIX}{now}:{address}", value)
    return now


def pretend_until(rig: Rig, address: str, in_flight: str | int, holds: Callable[[], bool]) -> str:
    """Repeat it until the nginx has the figure, because the epoch may end at any time; return the epoch."""

    def seen() -> str:
        now = pretend(rig, address, in_flight)
        return now if holds() else ""

    return wait_until(seen, f"{in_flight!s:.9} in flight elsewhere have been seen")


@contextlib.contextmanager
def held(
    rig: Rig, edge: Edge, clients: ThreadPoolExecutor, made: list[Backend], requests: int
) -> Iterator[None]:
    """Keep requests in flight during the block."""
    over = threading.Event()
    for backend in made:
        backend.holds["/held"] = over
    asked = [clients.submit(edge.get, "/held") for _ in range(requests)]

    def they_are() -> bool:
        return bool(sum(row["in_flight"] for row in edge.upstream()["peers"]) >= requests)

    try:
        rig.wait_until(they_are, "they are in flight")
        yield
    finally:
        over.set()
    assert {answer.result().status for answer in asked} == {200}


def test_each_nginx_knows_what_the_others_have_in_flight_and_no_longer_than_they_have_it(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    made = servers(rig)
    first, second = (balancer(rig, name, workers=2) for name in ("edge-1", "edge-2"))
    with first.under_load(1), second.under_load(1):
        for edge in (first, second):
            wait_for_state(rig, edge, "on")
        with held(rig, first, clients, made, 6):
            rig.wait_until(lambda: of_others(second) >= 6, "the second knows of six")
        rig.wait_until(lambda: of_others(second) <= 1, "they are over")
        about = exchange(second)
        assert about["balancers"] == 2
        assert about["age_s"] > 0
        assert about["cpu_share"] <= about["cpu_share_max"] * 1.01


def test_picks_go_around_who_is_busy_elsewhere_until_the_epoch_ends(rig: Rig) -> None:
    a, _ = servers(rig)
    edge = balancer(rig, "edge-1")
    with edge.under_load(1):
        wait_for_state(rig, edge, "alone")
        began = pretend_until(rig, a.address, 50, lambda: bool(others(edge)["a"] == 50))
        shares = edge.shares(20)
        if epoch(rig) == began:  # otherwise the ghost is already gone
            assert shares.get("a", 0) <= 6, shares  # some picks come between two exchanges
        # The other one is dead, so its requests are missing from the next epoch.
        # While the exchange is late, nothing is known of others in this one, too.
        rig.wait_until(lambda: epoch(rig) != began, "the epoch ends")
        rig.wait_until(lambda: others(edge)["a"] in (0, None), "the ghost is gone")
        rig.wait_until(lambda: edge.shares(20).get("a", 0) >= 6, "both servers are used again")


ALONE = {"state": "alone", "balancers": 1, "interval_s": 1, "age_s": None, "others": {None}}


def about_when_alone(edge: Edge) -> dict[str, Any]:
    """Return one status page's figure; at the start of an epoch its members are unknown for a moment."""
    status = edge.status()
    about = status["share_in_flight"]
    named = {name: about[name] for name in ALONE if name in about}
    return named | {"others": {peer["others_in_flight"] for peer in status["upstreams"]["web"]["peers"]}}


def test_alone_it_asks_once_a_second_whether_it_still_is(rig: Rig) -> None:
    servers(rig)
    edge = balancer(rig, "edge-1")
    with edge.under_load(1):
        wait_for_state(rig, edge, "alone")
        rig.wait_until(lambda: about_when_alone(edge) == ALONE, "it is alone, and uses no figures of others")
    assert not edge.complaints()


def test_the_option_turns_it_off_and_the_page_says_so(rig: Rig) -> None:
    servers(rig)
    edge = balancer(rig, "edge-1", option="false")
    edge.shares(4)
    about = exchange(edge)
    assert about["state"] == "off"
    assert about["error"] == "the option share_in_flight is false"
    assert rig.memcached.get(f"{PREFIX}epoch") is None


def test_by_default_it_begins_and_ends_as_tables_name_another_load_balancer(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    made = servers(rig)
    publish(rig, made, generation=1, reporters=[])
    first, second = (balancer(rig, name, option="nil") for name in BALANCERS)
    with first.under_load(1), second.under_load(1):
        for edge in (first, second):
            wait_for_state(rig, edge, "alone")
            assert others(edge) == {"a": None, "b": None}
        assert rig.memcached.get(f"{PREFIX}epoch") is None  # Memcached was told nothing
        publish(rig, made, generation=2)
        with held(rig, first, clients, made, 6):
            for edge in (first, second):
                wait_for_state(rig, edge, "on")
            rig.wait_until(lambda: of_others(second) >= 6, "the second knows of six")
            publish(rig, made, generation=3, reporters=["edge-1"])
            wait_for_state(rig, first, "alone")
            rig.wait_until(lambda: others(first) == {"a": None, "b": None}, "it goes by its own requests")
            # The second one has the table, too, which names another load balancer for it.
            rig.wait_until(lambda: of_others(second) == 0, "the first has taken its figures back")


@pytest.mark.parametrize("option", ["true", "false"])
def test_the_faster_of_two_idle_servers_is_taken_while_a_table_names_another_load_balancer(
    rig: Rig, option: str
) -> None:
    made = servers(rig)
    made[0].delays_s["/"] = 2.5 * ANSWER_S
    edge = balancer(rig, "edge-1", option=option)
    edge.shares(6)  # two answers make a latency known
    assert edge.shares(12).get("a", 0) <= 3
    publish(rig, made, generation=2, reporters=["edge-1"])
    edge.wait_for(2)
    assert edge.shares(12).get("a", 0) >= 4  # in the ring's order


def test_a_memcached_without_meta_commands_is_named_and_picks_go_on(rig: Rig, between: Between) -> None:
    servers(rig)
    between.mode = "old"
    edge = balancer(rig, "edge-1", port=between.port)
    with edge.under_load(2) as statuses:
        wait_for_state(rig, edge, "failed")
        assert "no meta commands (ERROR): Memcached 1.6 or later is needed" in exchange(edge)["error"]
        rig.wait_until(lambda: len(statuses) > 20, "requests go on")
        assert edge.logged("requests in flight are not exchanged with other load balancers") == 1
        between.mode = "open"
        wait_for_state(rig, edge, "alone")
        # More than once if an exchange was late on a busy machine.
        assert edge.logged("requests in flight are exchanged with other load balancers") >= 1
    assert set(statuses) == {200}


@pytest.mark.parametrize("mode", ["silent", "shut"])
def test_a_store_that_is_away_or_hangs_delays_no_request(rig: Rig, between: Between, mode: str) -> None:
    a, _ = servers(rig)
    edge = balancer(rig, "edge-1", port=between.port)
    with edge.under_load(2) as statuses:
        wait_for_state(rig, edge, "alone", "on")
        pretend_until(rig, a.address, 50, lambda: bool(exchange(edge)["state"] == "on"))
        between.mode = mode
        wait_for_state(rig, edge, "failed")
        assert exchange(edge)["age_s"] is None
        before = len(statuses)
        rig.wait_until(lambda: len(statuses) > before + 20, "requests go on")
        assert edge.shares(20).get("a", 0) >= 6  # by its own counts
        between.mode = "open"
        wait_for_state(rig, edge, "alone", "on")
    assert set(statuses) == {200}


@pytest.mark.parametrize("drips_after", [0, len("MN\r\n")])
def test_a_memcached_that_drips_its_answers_is_named_and_the_next_one_is_asked(
    rig: Rig, drips_after: int
) -> None:
    a, _ = servers(rig)
    first, second = sorted((Between(rig.memcached.port) for _ in range(2)), key=lambda each: str(each.port))
    first.drips_after = drips_after  # a connection begins with such an answer
    listed = f'memcached = {{"127.0.0.1:{first.port}", "127.0.0.1:{second.port}"}},'
    edge = balancer(rig, "edge-1", more=listed)
    with contextlib.closing(first), contextlib.closing(second), edge.under_load(2) as statuses:
        wait_for_state(rig, edge, "alone")
        first.mode = "drips"
        rig.wait_until(lambda: edge.logged(f"exchanged at 127.0.0.1:{second.port}, because"), "it is noticed")
        assert edge.logged(f"127.0.0.1:{first.port}: no whole answer within 0.1 s")
        pretend_until(rig, a.address, 50, lambda: bool(exchange(edge)["state"] == "on"))
    assert set(statuses) == {200}


def test_what_is_no_number_is_refused_and_picks_go_by_its_own(rig: Rig) -> None:
    a, _ = servers(rig)
    edge = balancer(rig, "edge-1")
    with edge.under_load(2) as statuses:
        wait_for_state(rig, edge, "alone")
        pretend_until(rig, a.address, "x" * 70000, lambda: bool(exchange(edge)["state"] == "failed"))
        assert "CLIENT_ERROR" in exchange(edge)["error"]
        rig.wait_until(lambda: exchange(edge)["state"] in ("alone", "on"), "the next epoch is well")
    assert set(statuses) == {200}


def test_a_reload_and_a_killed_worker_leave_no_ghost_and_it_goes_on(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    made = servers(rig)
    first, second = (balancer(rig, name, workers=2) for name in ("edge-1", "edge-2"))
    with second.under_load(1) as statuses:
        before = set(first.worker_pids())
        with first.under_load(1), held(rig, first, clients, made, 6):
            rig.wait_until(lambda: of_others(second) >= 6, "the second knows of six")
            first.begin_reload()
            rig.wait_until(lambda: len({*first.worker_pids()} - before) == 2, "it has new workers, too")
        rig.wait_until(lambda: before.isdisjoint(first.worker_pids()), "the old workers are gone")
        rig.wait_until(lambda: of_others(second) == 0, "they have left nothing")
        for pid in first.worker_pids():
            os.kill(pid, signal.SIGKILL)
        rig.wait_until(lambda: len(first.worker_pids()) == 2, "it has new workers")
        with first.under_load(1):
            rig.wait_until(lambda: (exchange(first)["age_s"] or 1) < 0.1, "it goes on")
    assert set(statuses) == {200}


def test_one_that_is_paused_is_forgotten_and_wakes_into_the_epoch_of_the_others(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    made = servers(rig)
    first, second = (balancer(rig, name) for name in ("edge-1", "edge-2"))
    (pid,) = first.worker_pids()
    with second.under_load(1):
        with held(rig, first, clients, made, 6):
            rig.wait_until(lambda: of_others(second) == 6, "the second knows of six")
            began = epoch(rig)
            os.kill(pid, signal.SIGSTOP)
            try:
                rig.wait_until(lambda: epoch(rig) != began and of_others(second) == 0, "they are forgotten")
            finally:
                os.kill(pid, signal.SIGCONT)
            rig.wait_until(lambda: of_others(second) == 6, "it is back, with all it has")
        rig.wait_until(lambda: of_others(second) == 0, "they are over")


def test_a_forger_of_counters_bends_picks_within_a_bound(rig: Rig) -> None:
    made = servers(rig, "abcdefghij")
    edge = balancer(rig, "edge-1")

    def forged() -> bool:
        for each in made[1:]:
            pretend(rig, each.address, 10**15)
        return bool(others(edge)["b"])

    with edge.under_load(1):
        wait_for_state(rig, edge, "alone")
        rig.wait_until(forged, "it believes the forger")
        # Two candidates by weight and four of ten more: 0.2 + 0.4 of the requests, and chance.
        assert edge.shares(60).get("a", 0) <= 60 * 0.85
        rig.wait_until(lambda: not any(others(edge).values()), "the forged counts are gone")


def test_a_mistake_in_the_option_is_named(rig: Rig) -> None:
    servers(rig)
    options = "share_in_flight = { cpu_share = 2 }, upstreams = { web = {} },"
    edge = rig.edge_of(one_upstream(rig.memcached.port, options, "}"))
    assert "share_in_flight.cpu_share" in edge.get().body


def test_a_server_that_leaves_and_is_back_has_what_is_open_there_and_no_ghost(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    a, b = servers(rig)
    b.holds["/held"] = a.holds["/held"] = threading.Event()
    first, second = (balancer(rig, name) for name in ("edge-1", "edge-2"))
    asked = [clients.submit(first.get, "/held") for _ in range(8)]
    with second.under_load(1):

        def eight() -> dict[str, Any] | None:
            figures = others(second)
            return figures if sum(filter(None, figures.values())) == 8 else None

        # A balancer that is late has no figures for a moment, so these are the figures that were seen.
        known = wait_until(eight, "the second does not know of all eight")
        for generation, made in ((2, [a]), (3, [a, b])):
            publish(rig, made, generation=generation)
            for edge in (first, second):
                edge.wait_for(generation)
        rig.wait_until(lambda: others(second) == known, "open requests there count again")
        asked += [clients.submit(first.get, "/held") for _ in range(4)]
        rig.wait_until(lambda: of_others(second) == 12, "new requests count, too")
        a.holds["/held"].set()
        assert {answer.result().status for answer in asked} == {200}
        rig.wait_until(lambda: of_others(second) == 0, "no ghost is left")
    assert not [edge for edge in (first, second) if edge.complaints()]


def test_a_server_of_two_upstreams_has_what_is_in_flight_there_for_both(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    a, b = servers(rig)
    b.holds["/api"] = threading.Event()
    publish(rig, [b], generation=1, upstream="api")
    options = "share_in_flight = true, upstreams = { web = {}, api = {} },"
    location = """
    location /api { proxy_pass http://api; }
  }
  upstream api {
    server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("api") } keepalive 8;
  }
"""
    edges = []
    for name in ("edge-1", "edge-2"):
        http = one_upstream(rig.memcached.port, options, location).replace('lb = "edge-1"', f'lb = "{name}"')
        edges.append(rig.edge_of(http, folder=name))
        for upstream in ("web", "api"):
            edges[-1].wait_for(1, upstream=upstream)
    first, second = edges
    asked = [clients.submit(first.get, "/api") for _ in range(3)]
    with second.under_load(1):
        rig.wait_until(lambda: others(second)["b"] == 3, "the second knows of them by the other upstream")
        assert second.upstream("api")["peers"][0]["others_in_flight"] == 3
        assert others(second)["a"] == 0
        # Its own requests avoid those of the other nginx's other upstream.
        assert second.shares(20).get("b", 0) <= 6
        # Only the other upstream is still shared: figures of the first one would never be corrected again.
        with held(rig, first, clients, [a, b], 4):
            rig.wait_until(
                lambda: others(second)["a"] >= 2, "the second knows of those of the first upstream"
            )
            publish(rig, [a, b], generation=2, reporters=["edge-2"])
            second.wait_for(2)
            rig.wait_until(lambda: others(second)["a"] == 0, "nothing is known of them any more")
            assert others(second)["b"] >= 3
    b.holds["/api"].set()
    assert {answer.result().status for answer in asked} == {200}
