"""Hundreds of upstreams in one nginx: all get their tables, reports and checks, and none delays another."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

# nginx runs 256 timers at a time and drops further due ones (lua_max_running_timers).
COUNT = 400

NAMES = [f"u{number}" for number in range(COUNT)]

UPSTREAMS = f"""
  upstreams = (function()
    local all = {{ web = {{}} }}
    for number = 0, {COUNT - 1} do
      all["u" .. number] = {{}}
    end
    return all
  end)(),
"""


def rungs(edge: Edge) -> dict[str, str]:
    return {name: upstream["rung"] for name, upstream in edge.status()["upstreams"].items()}


def test_every_one_of_four_hundred_upstreams_has_its_table_its_report_and_its_check(rig: Rig) -> None:
    a = rig.backend("a")
    for name in ("web", *NAMES):
        path = f"/check/{name}"
        check = {"path": path, "interval_s": 600, "timeout_s": 60, "rise": 1, "fall": 1}
        a.delays_s[path] = 1.0  # so that many wait for an answer at a time
        rig.publish([("a", a.address, 1, "up")], generation=1, upstream=name, check=check)
    edge = rig.edge(options=UPSTREAMS, workers=2)
    edge.wait_for(1)
    # On a busy machine the first may be held for some seconds before the last one starts.
    rig.wait_until(lambda: {*rungs(edge).values()} <= {"fresh", "hold"}, "every upstream has its table")
    missing = {*NAMES}

    def reported() -> bool:
        for name in [*missing]:
            report = rig.memcached.get(f"steelyard:1:traffic:{name}:edge-1")
            if report is not None and json.loads(report).get("order") == [1, 1]:
                missing.discard(name)
        return not missing

    rig.wait_until(reported, "every upstream is reported, with the table that it serves")
    rig.wait_until(
        lambda: {path for path, _, _ in a.received} >= {f"/check/{name}" for name in NAMES},
        "every one is checked",
    )
    assert edge.logged("lua_max_running_timers are not enough") == 0


def test_what_is_wrong_with_one_upstream_is_its_own_fault_and_changes_nothing_for_the_next(rig: Rig) -> None:
    a = rig.backend("a")
    for name in ("web", *NAMES):
        rig.publish([("a", a.address, 1, "up")], generation=1, upstream=name)
    rig.memcached.set("steelyard:1:weights:u7", '{"v": 1, "upstream": "u7"')
    edge = rig.edge(options=UPSTREAMS)
    edge.wait_for(1)
    rig.wait_until(
        lambda: sum(rung in ("fresh", "hold") for rung in rungs(edge).values()) == COUNT,
        "all others have their tables",
    )
    upstreams = edge.status()["upstreams"]
    assert (upstreams["u7"]["rung"], upstreams["u7"]["last_fetch"]) == ("none", "not_json")
    assert sum(upstream["refused"]["not_json"] > 0 for upstream in upstreams.values()) == 1
    assert edge.logged("upstream u7: the weight table of") == 1


@pytest.fixture
def dripping() -> Iterator[str]:
    """Yield the address of a Memcached with endless answers, a byte every tenth of a second."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def drip(connection: socket.socket) -> None:
        with closing(connection):
            connection.sendall(b"VALUE ")
            while not ended.wait(0.1):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    def take() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    ended.set()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_memcached_that_drips_its_answer_holds_up_nobody_for_long(rig: Rig, dripping: str) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    listed = f'memcached = {{"{dripping}", "127.0.0.1:{rig.memcached.port}"}}, upstreams = {{ web = {{}} }},'
    edge = rig.edge(options=listed)
    edge.wait_for(1)
    rig.wait_until(
        lambda: rig.memcached.get("steelyard:1:traffic:web:edge-1"), "reports go to the other one, too"
    )
    rig.publish([("a", a.address, 1, "up")], generation=2)
    edge.wait_for(2)
    rig.wait_until(edge.fetches_well, "fetches go well")


class FakeMemcached:
    """A Memcached that answers each look-up late, and refuses writes to some keys."""

    def __init__(self, *, late_s: float = 0.0, refused: str = "") -> None:
        self.values: dict[str, bytes] = {}
        self.asked_for: list[int] = []
        stand_in = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while words := self.rfile.readline().decode().split():
                    if words[0] == "get":
                        stand_in.asked_for.append(len(words) - 1)
                        time.sleep(late_s)
                        held = [(key, stand_in.values[key]) for key in words[1:] if key in stand_in.values]
                        rows = [
                            b"VALUE %s 0 %d\r\n%s\r\n" % (key.encode(), len(text), text) for key, text in held
                        ]
                        self.wfile.write(b"".join(rows) + b"END\r\n")
                    else:
                        text = self.rfile.read(int(words[4]) + 2)[:-2]
                        if words[1] == refused:
                            self.wfile.write(b"SERVER_ERROR object too large for cache\r\n")
                        else:
                            stand_in.values[words[1]] = text
                            self.wfile.write(b"STORED\r\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.option = f'memcached = {{"127.0.0.1:{self._server.server_address[1]}"}},'

    def publish(self, name: str, address: str) -> None:
        """Write a weight table of one server."""
        row = {"id": "a", "address": address, "weight": 1, "baseline": 1, "state": "up"}
        document = {
            "v": 1,
            "upstream": name,
            "term": 1,
            "generation": 1,
            "issued_at_ms": 0,
            "law": "steelyard",
        }
        document |= {"picker": "vnswrr", "reporters": ["edge-1"], "peers": [row]}
        self.values[f"steelyard:1:weights:{name}"] = json.dumps(document).encode()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_slow_memcached_gives_every_upstream_its_table_in_turn(rig: Rig) -> None:
    a = rig.backend("a")
    # 9 look-ups of at most 50 keys: more than the half second of a walk.
    with closing(FakeMemcached(late_s=0.1)) as slow:
        for name in ("web", *NAMES):
            slow.publish(name, a.address)
        edge = rig.edge(options=slow.option + UPSTREAMS)
        rig.wait_until(lambda: {*rungs(edge).values()} <= {"fresh", "hold"}, "every upstream has its table")
        assert max(slow.asked_for) == 50


def test_a_report_that_memcached_does_not_take_holds_up_no_other(rig: Rig) -> None:
    refused = "steelyard:1:traffic:u7:edge-1"
    with closing(FakeMemcached(refused=refused)) as memcached:
        edge = rig.edge(options=memcached.option + UPSTREAMS)
        rig.wait_until(
            lambda: sum(":traffic:" in key for key in [*memcached.values]) == COUNT, "all others are reported"
        )
        assert refused not in memcached.values
        rig.wait_until(lambda: edge.status()["report_errors"] > 0, "it is counted")
        assert edge.logged(f"traffic report not sent: {refused}: SERVER_ERROR object too large") == 1
