"""A tick with an HAProxy of scripted answers."""

import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from steelyard_protocol import balancer_runs, weight_table, wire
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import TablePeer, WeightTable
from steelyard_reporter.newest_tables import Tables
from steelyard_reporter.reporter import UNREAD_REPORTS, Reporter
from steelyard_reporter.settings import Settings

from testing.waiting import PATIENCE_S

from .rows import info, stat
from .sockets import serving


class Haproxy:
    """Servers by name with their states; it deletes one only when it is asked for the second time."""

    def __init__(self) -> None:
        self.states = {"s1": "UP"}
        self.asked: list[str] = []

    def __call__(self, connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG002
        """Answer a line of commands."""
        answers = [self._answer(command) for command in connection.recv(65536).decode().strip().split(";")]
        connection.sendall("".join(f"{answer}\n\n" for answer in answers).encode())

    def _answer(self, command: str) -> str:
        if command == "show info":
            return info()
        if command.startswith("show stat"):
            return stat(*({"name": name, "status": state} for name, state in self.states.items()))
        self.asked.append(command)
        verb, what, where, *_ = command.split()
        name = where.partition("/")[2]
        if (verb, what) == ("add", "server"):
            self.states[name] = "MAINT"
            return "New server registered."
        if (verb, what) == ("del", "server"):
            if self.asked.count(command) < 2:
                return "Server still has connections attached to it, cannot remove it."
            del self.states[name]
            return "Server deleted."
        if " state " in command:
            self.states[name] = {"ready": "UP", "maint": "MAINT"}[command.split()[-1]]
        return ""


class Memcached(MemcachedWriter):
    """Holds the table, and takes reports."""

    def __init__(self) -> None:
        super().__init__([])
        self.values: dict[str, bytes] = {}

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the existing values."""
        return {key: self.values[key] for key in keys if key in self.values}

    def put_many(self, values: Mapping[str, bytes]) -> set[str]:
        """Store values."""
        self.values |= values
        return set(values)

    def append(self, key: str, value: bytes, *, ttl_s: int) -> bool:  # noqa: ARG002
        """Append to a value."""
        return bool(self.put_many({key: self.values.get(key, b"") + value}))

    def publish(
        self,
        generation: int,
        *names: str,
        upstream: str = "web",
        reporters: tuple[str, ...] = ("edge-1",),
    ) -> None:
        """Hold a table of these servers."""
        peers = tuple(
            TablePeer(id=name, address="10.0.0.1:80", weight=20, baseline=20, state="up") for name in names
        )
        table = WeightTable(
            upstream=upstream, term=1, generation=generation, issued_at_ms=0, law="static", picker="vnswrr2",
            peers=peers, reporters=reporters,
        )  # fmt: skip
        self.values[wire.weights_key(upstream)] = weight_table.encode(table)


def _reporter(path: Path, memcached: Memcached, boot: str = "b0070000", **members: Any) -> Reporter:
    told: dict[str, Any] = {"upstreams": {"web": "web"}, **members}
    settings = Settings(sockets=(path,), lb="edge-1", memcached=(), interval_s=PATIENCE_S, **told)
    return Reporter(
        settings,
        pool=memcached,
        tables=Tables(
            {"memory": memcached.get_many}, list(settings.upstreams), keys=(), wall_clock=time.time
        ),
        key=None,
        boot=boot,
        clock=time.monotonic,
        wall_clock=time.time,
    )


def test_a_server_that_haproxy_will_not_delete_yet_is_deleted_later(tmp_path: Path) -> None:
    haproxy, memcached = Haproxy(), Memcached()
    reporter = _reporter(tmp_path / "s", memcached, set_weights=True, add_servers="")
    with serving(tmp_path / "s", haproxy):
        for generation, names in enumerate((["s1", "s2"], ["s1", "s2"], *[["s1"]] * 4), start=1):
            memcached.publish(generation, *names)
            reporter.report()
            reporter.follow()
    assert haproxy.states == {"s1": "UP"}
    assert haproxy.asked == [
        "add server web/s2 10.0.0.1:80 weight 100",
        "set server web/s2 state ready",
        "set server web/s2 state maint",
        "del server web/s2",
        "del server web/s2",
    ]


def test_a_server_that_left_while_haproxy_was_away_is_put_out_of_service(tmp_path: Path) -> None:
    haproxy, memcached = Haproxy(), Memcached()
    haproxy.states["s2"] = "UP"
    reporter = _reporter(tmp_path / "s", memcached, set_weights=True)
    for generation, names in enumerate((["s1", "s2"], ["s1"]), start=1):
        memcached.publish(generation, *names)
        reporter.report()
        reporter.follow()
    with serving(tmp_path / "s", haproxy):
        reporter.report()
        reporter.follow()
    assert haproxy.asked == ["set server web/s2 state maint"]


def test_one_upstream_s_added_server_is_not_another_s_to_delete(tmp_path: Path) -> None:
    haproxy, memcached = Haproxy(), Memcached()
    upstreams = {"web": "web", "shop": "web"}
    reporter = _reporter(tmp_path / "s", memcached, upstreams=upstreams, set_weights=True, add_servers="")
    memcached.publish(1, "s1", "s2")
    memcached.publish(1, "s1", upstream="shop")
    with serving(tmp_path / "s", haproxy):
        for _ in range(3):
            reporter.report()
            reporter.follow()
    assert haproxy.states == {"s1": "UP", "s2": "UP"}
    assert not [command for command in haproxy.asked if command.startswith("del")]


def test_without_set_weights_it_only_asks(tmp_path: Path) -> None:
    haproxy, memcached = Haproxy(), Memcached()
    reporter = _reporter(tmp_path / "s", memcached)
    memcached.publish(1, "s1", "s2")
    with serving(tmp_path / "s", haproxy):
        reporter.follow()
        for _ in range(3):
            reporter.report()
            reporter.follow()
    assert haproxy.asked == []
    assert wire.traffic_key("web", "edge-1") in memcached.values


def test_each_report_has_a_line_by_which_two_of_one_name_are_noticed(tmp_path: Path) -> None:
    memcached, runs = Memcached(), list[TrafficReport]()
    reporter, other = _reporter(tmp_path / "s", memcached), _reporter(tmp_path / "s", memcached, boot="other")
    memcached.publish(1, "s1")
    with serving(tmp_path / "s", Haproxy()):
        for each in (reporter, other):
            each.follow()
        for _ in range(3):
            for each in (reporter, other):
                runs += each.report()
    lines = memcached.values[wire.RUNS_KEY]
    assert list(balancer_runs.read([lines])) == list(map(balancer_runs.run_of, runs))


def test_a_table_that_does_not_name_it_has_it_announce_itself_and_the_log_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    memcached = Memcached()
    reporter = _reporter(tmp_path / "s", memcached)

    def announced_by(generation: int, reporters: tuple[str, ...]) -> bytes | None:
        memcached.values.pop(wire.ANNOUNCED_KEY, None)
        memcached.publish(generation, "s1", reporters=reporters)
        reporter.follow()
        assert reporter.report()
        return memcached.values.get(wire.ANNOUNCED_KEY)

    with serving(tmp_path / "s", Haproxy()):
        memcached.publish(1, "s1")
        reporter.follow()
        reporter.report()
        for generation in range(2, 3 + UNREAD_REPORTS):
            assert announced_by(generation, ("edge-9",)) == b"web edge-1\n"
        assert "does not read the reports of edge-1" in caplog.text
        assert announced_by(100, ("edge-9", "edge-1")) is None
    assert "web: the controller reads the reports of edge-1" in caplog.text
    assert "no longer: web: the controller does not read" in caplog.text
