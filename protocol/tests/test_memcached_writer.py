"""Several Memcached servers as one, for a writer; and pauses for an unreachable one."""

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import memcached_writer, rendezvous
from steelyard_protocol.memcached_client import MemcachedClient
from steelyard_protocol.memcached_writer import MemcachedServer, MemcachedWriter

from testing.daemons import Daemon, memcached_in
from testing.hostile_servers import dripping
from testing.waiting import wait_until

SERVERS = ["10.0.0.5:11211", "10.0.0.6:11211", "10.0.0.7:11211"]
KEYS = [f"steelyard:1:sample:web:server-{n}" for n in range(3000)]
NAMES = st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=6, unique=True)


class Clock:
    """A clock set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Shelf(MemcachedServer):
    """A server that keeps its values, or returns the reason against it."""

    def __init__(self, name: str, fault: str | None = None) -> None:
        self.name = name
        self.fault = fault
        self.values: dict[str, bytes] = {}
        self.questions = 0
        self.closed = False

    def put_many(self, values: Mapping[str, bytes]) -> str | Mapping[str, str]:
        self.questions += 1
        if self.fault is not None:
            return self.fault
        self.values.update(values)
        return {}

    def append(self, key: str, value: bytes, *, ttl_s: int) -> str | Mapping[str, str]:  # noqa: ARG002
        return self.put_many({key: self.values.get(key, b"") + value})

    def close(self) -> None:
        self.closed = True


def pool_of(*shelves: Shelf) -> MemcachedWriter:
    return MemcachedWriter(shelves)


def ordered(key: str) -> list[Shelf]:
    """Return three servers, in the key's order."""
    return [Shelf(name) for name in rendezvous.order(SERVERS, key)]


def test_the_order_of_a_key_is_pinned_because_readers_follow_it() -> None:
    assert rendezvous.order(SERVERS, "steelyard:1:sample:web:server-1") == [
        "10.0.0.6:11211",
        "10.0.0.7:11211",
        "10.0.0.5:11211",
    ]


@given(NAMES, st.text(max_size=20), st.randoms())
def test_the_order_does_not_depend_on_how_the_servers_are_listed(
    servers: list[str], key: str, random: Random
) -> None:
    shuffled = random.sample(servers, len(servers))
    assert rendezvous.order(servers, key) == rendezvous.order(shuffled, key)
    assert sorted(rendezvous.order(servers, key)) == sorted(servers)


@given(NAMES.filter(lambda names: len(names) > 1), st.text(max_size=20), st.data())
def test_a_server_that_leaves_moves_only_its_own_keys(
    servers: list[str], key: str, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(servers))
    left = [name for name in servers if name != gone]
    assert rendezvous.order(left, key) == [name for name in rendezvous.order(servers, key) if name != gone]


def test_keys_are_spread_over_the_servers_and_those_of_a_lost_one_over_the_rest() -> None:
    firsts = Counter(rendezvous.order(SERVERS, key)[0] for key in KEYS)
    assert all(900 < count < 1100 for count in firsts.values()), firsts
    seconds = Counter(
        order[1] for order in (rendezvous.order(SERVERS, key) for key in KEYS) if order[0] == SERVERS[0]
    )
    assert all(0.4 < count / firsts[SERVERS[0]] < 0.6 for count in seconds.values()), seconds


def test_a_value_goes_to_one_server_only() -> None:
    shelves = ordered("k")
    assert pool_of(*shelves).put_many({"k": b"1"})
    assert [shelf.values for shelf in shelves] == [{"k": b"1"}, {}, {}]


def test_the_next_one_takes_it_while_the_first_is_away_and_everything_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    first, second, third = shelves = ordered("k")
    pool = pool_of(*shelves)
    first.fault = "timed out"
    assert [pool.put_many({"k": b"1"}) for _ in range(3)] == [{"k"}] * 3
    assert (second.values, third.values) == ({"k": b"1"}, {})
    assert pool.reachable == {first.name: False, second.name: True, third.name: True}
    second.fault = third.fault = "connection refused"
    assert [pool.put_many({"k": b"2"}) for _ in range(3)] == [set()] * 3
    third.fault = None
    assert pool.put_many({"k": b"3"})
    first.fault = second.fault = None
    assert pool.put_many({"k": b"4"})
    assert first.values == {"k": b"4"}
    assert [entry.getMessage() for entry in caplog.records] == [
        f"Memcached at {first.name} takes no samples (timed out): {second.name} takes them meanwhile",
        f"Memcached at {second.name} takes no samples (connection refused): they are dropped until one does",
        f"Memcached at {third.name} takes no samples (connection refused): they are dropped until one does",
        f"Memcached at {third.name} is back: samples arrive again",
        f"Memcached at {first.name} is back: samples arrive again",
    ]


def test_many_values_are_one_question_to_each_server_and_lie_where_one_alone_would() -> None:
    shelves = [Shelf(name) for name in SERVERS]
    values = {key: key.encode() for key in KEYS[:60]}
    assert pool_of(*shelves).put_many(values) == set(values)
    assert [shelf.questions for shelf in shelves] == [1, 1, 1]
    for key in values:
        assert [shelf.name for shelf in shelves if key in shelf.values] == [rendezvous.order(SERVERS, key)[0]]


def test_of_many_values_those_of_a_server_that_is_away_go_to_the_next_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    away, *others = shelves = [Shelf(name) for name in SERVERS]
    away.fault = "timed out"
    pool = pool_of(*shelves)
    values = dict.fromkeys(KEYS[:60], b"1")
    assert [pool.put_many(values) for _ in range(2)] == [set(values)] * 2
    assert away.questions == 2
    for key in values:
        first = next(name for name in rendezvous.order(SERVERS, key) if name != away.name)
        assert [shelf.name for shelf in others if key in shelf.values] == [first]
    away.fault = None
    pool.put_many(values)
    assert [entry.levelname for entry in caplog.records] == ["WARNING", "INFO"]
    assert "takes no samples (timed out)" in caplog.records[0].getMessage()
    assert caplog.records[1].getMessage() == f"Memcached at {away.name} is back: samples arrive again"


def test_many_values_that_no_server_takes_are_dropped_and_each_server_is_asked_once() -> None:
    shelves = [Shelf(name, "timed out") for name in SERVERS]
    assert pool_of(*shelves).put_many(dict.fromkeys(KEYS[:60], b"1")) == set()
    assert [shelf.questions for shelf in shelves] == [1, 1, 1]
    assert pool_of().put_many({"k": b"1"}) == set()


def test_a_pool_of_one_says_that_samples_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    assert not pool_of(Shelf("a:1", "timed out")).put_many({"k": b"1"})
    assert [entry.getMessage() for entry in caplog.records] == [
        "Memcached at a:1 takes no samples (timed out): they are dropped until it does"
    ]


def test_a_pool_of_none_takes_nothing() -> None:
    assert not pool_of().put_many({"k": b"1"})


def test_closing_a_pool_closes_every_server() -> None:
    shelves = ordered("k")
    pool_of(*shelves).close()
    assert all(shelf.closed for shelf in shelves)


def server_at(port: int, *, clock: Clock, timeout_s: float = 5.0) -> MemcachedServer:
    client = MemcachedClient(("127.0.0.1", port), timeout_s=timeout_s)
    return MemcachedServer(client, ttl_s=2, clock=clock, random=lambda: 1.0)


@pytest.mark.integration
def test_a_server_is_tried_again_at_once_and_then_after_pauses_that_double(memcached: Daemon) -> None:
    clock = Clock()
    memcached.kill()
    server = server_at(memcached.port, clock=clock)
    refused = server.put_many({"a": b"1"})
    assert refused == "[Errno 111] Connection refused"
    assert server.put_many({"a": b"1"}) == refused  # a second try is due at once, a third half a second later
    memcached.start()
    clock.now_s = 0.4
    assert server.put_many({"a": b"1"}) == refused
    clock.now_s = 0.5
    assert server.put_many({"a": b"1"}) == {}
    server.close()


@pytest.mark.integration
def test_during_a_pause_a_server_is_not_asked() -> None:
    clock = Clock()
    with dripping() as hostile:
        server = server_at(hostile.port, clock=clock, timeout_s=0.2)
        for now_s, asked in ((0.0, 1), (0.0, 2), (0.4, 2), (0.5, 3), (1.4, 3), (1.5, 4)):
            clock.now_s = now_s
            assert server.put_many({"a": b"1"}) == "timed out"
            # The server's thread may be later than the time-out.
            wait_until(lambda asked=asked: hostile.connections >= asked)  # type: ignore[misc]
            assert hostile.connections == asked
        server.close()


@pytest.mark.integration
def test_a_pool_goes_on_with_the_server_that_does_not_drip(memcached: Daemon) -> None:
    with dripping() as hostile:
        clock = Clock()
        pool = MemcachedWriter(
            [server_at(hostile.port, clock=clock, timeout_s=0.2), server_at(memcached.port, clock=clock)]
        )
        assert all(pool.put_many({key: b"1"}) for key in KEYS[:20])
        assert pool.reachable == {hostile.address: False, memcached.address: True}
        wait_until(lambda: hostile.is_dripping)
        pool.close()


@pytest.mark.parametrize(
    ("interval_s", "ttl_s"), [(0.1, 2), (0.5, 2), (0.7, 3), (1.0, 3), (1.1, 4), (10.0, 30)]
)
def test_a_sample_lives_three_intervals_in_whole_seconds(interval_s: float, ttl_s: int) -> None:
    assert memcached_writer.ttl_s(interval_s) == ttl_s


def test_a_put_to_every_server_fits_into_half_an_interval() -> None:
    assert memcached_writer.put_s(1.0, 1) == 0.25
    assert memcached_writer.put_s(60.0, 2) == 0.25
    assert 5 * memcached_writer.put_s(0.1, 5) <= 0.05 + 1e-9


def test_what_is_appended_goes_where_a_value_of_its_key_would() -> None:
    first, second, third = ordered("a")
    first.fault = "away"
    pool = pool_of(first, second, third)
    assert pool.append("a", b"1", ttl_s=3)
    assert pool.append("a", b"2", ttl_s=3)
    assert (second.values, third.values) == ({"a": b"12"}, {})


@pytest.mark.integration
def test_a_value_that_takes_no_more_is_no_fault_of_its_server(
    memcached: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    client = MemcachedClient(("127.0.0.1", memcached.port))
    pool = MemcachedWriter([MemcachedServer(client, ttl_s=3)], what="reports")
    with caplog.at_level(logging.INFO):
        assert pool.put_many({"full": b"1" * (2**20 - 200)}) == {"full"}
        for _ in range(3):
            pool.append("full", b"2" * 250, ttl_s=3)
            assert pool.put_many({"a": b"1"}) == {"a"}
    pool.close()
    assert caplog.messages == []


@pytest.mark.integration
@pytest.mark.parametrize("servers", [1, 2])
def test_a_value_that_is_too_large_silences_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, servers: int
) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(memcached_in(tmp_path)).port for _ in range(servers)]
        clock = Clock()
        pool = MemcachedWriter([server_at(port, clock=clock) for port in ports], what="reports")
        clients = [MemcachedClient(("127.0.0.1", port), timeout_s=5.0) for port in ports]
        small = [f"steelyard:1:traffic:web-{n}:edge-1" for n in range(20)]
        huge = [f"steelyard:1:traffic:huge-{n}:edge-1" for n in range(2)]
        with caplog.at_level(logging.INFO):
            for turn in range(5):
                clock.now_s += 1.0
                assert pool.append("runs", b"1", ttl_s=60)
                now = dict.fromkeys(small, b"%d" % turn)
                assert pool.put_many(now | dict.fromkeys(huge, bytes(2**21))) == set(small)
                held = [client.get_many(small) for client in clients]
                assert {key: value for values in held for key, value in values.items()} == now
            assert all(pool.reachable.values())
            assert pool.put_many(dict.fromkeys([*small, *huge], b"1")) == {*small, *huge}
        refused = f"Memcached takes no {huge[0]} and 1 more (object too large for cache)"
        assert caplog.messages == [f"{refused}, but the other reports"]
        pool.close()
        for client in clients:
            client.close()


def test_a_server_that_refuses_a_value_is_asked_for_others_of_a_lost_server() -> None:
    class Choosy(Shelf):
        def put_many(self, values: Mapping[str, bytes]) -> str | Mapping[str, str]:
            super().put_many({key: value for key, value in values.items() if value != b"large"})
            return {key: "object too large for cache" for key, value in values.items() if value == b"large"}

    lost, choosy = Shelf(SERVERS[0], "timed out"), Choosy(SERVERS[1])
    names = [lost.name, choosy.name]
    large = next(key for key in KEYS if rendezvous.order(names, key)[0] == choosy.name)
    small = next(key for key in KEYS if rendezvous.order(names, key)[0] == lost.name)
    assert pool_of(lost, choosy).put_many({large: b"large", small: b"1"}) == {small}
