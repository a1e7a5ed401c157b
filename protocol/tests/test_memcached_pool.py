"""A pool of Memcached servers, as agents and nginx fill it."""

import asyncio
from collections.abc import Iterator

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import rendezvous
from steelyard_protocol.memcached_client import Unavailable
from steelyard_protocol.memcached_pool import Forbidden, MemcachedPool

from testing.daemons import Daemon, free_port
from testing.hostile_servers import answering, dripping
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

# Long enough for a loaded machine, if a server is to answer.
PATIENT_S = 10.0

KEYS = [f"steelyard:1:sample:web:server-{n}" for n in range(20)]


def put(address: str, key: str, value: bytes) -> None:
    host, port = address.split(":")
    client = Client((host, int(port)), connect_timeout=PATIENCE_S, timeout=PATIENCE_S)
    client.set(key, value, noreply=False)
    client.close()


def got(address: str, key: str) -> bytes | None:
    host, port = address.split(":")
    client = Client((host, int(port)), connect_timeout=PATIENCE_S, timeout=PATIENCE_S)
    value: bytes | None = client.get(key)
    client.close()
    return value


async def replaced(pipeline: MemcachedPool, value: bytes) -> None:
    await pipeline.replace({"table": value}, await pipeline.seen(["table"]), ttl_s=60)


@pytest.fixture
def second(memcached: Daemon) -> Iterator[Daemon]:
    port = free_port()
    command = [str(port) if part == str(memcached.port) else part for part in memcached.command]
    daemon = Daemon(command, port, memcached.log.with_name("second.log"))
    daemon.start()
    yield daemon
    daemon.kill()


def test_a_key_is_found_on_its_first_server_and_on_any_other(memcached: Daemon, second: Daemon) -> None:
    servers = [memcached.address, second.address]
    for n, key in enumerate(KEYS):
        put(rendezvous.order(servers, key)[n % 2], key, key.encode())
    pipeline = MemcachedPool(",".join(servers), timeout_s=PATIENT_S)
    assert asyncio.run(pipeline.get_many([*KEYS, "absent"])) == {key: key.encode() for key in KEYS}
    pipeline.close()


def test_the_first_servers_value_counts_where_both_have_one(memcached: Daemon, second: Daemon) -> None:
    servers = [memcached.address, second.address]
    for key in KEYS:
        first, other = rendezvous.order(servers, key)
        put(first, key, b"new")
        put(other, key, b"old")
    pipeline = MemcachedPool(",".join(servers), timeout_s=PATIENT_S)
    assert set(asyncio.run(pipeline.get_many(KEYS)).values()) == {b"new"}
    pipeline.close()


def test_a_dead_server_is_named_and_the_others_go_on(memcached: Daemon, second: Daemon) -> None:
    pipeline = MemcachedPool(f"{memcached.address},{second.address}", timeout_s=PATIENT_S)
    for key in KEYS:
        put(second.address, key, b"1")
    memcached.kill()
    assert len(asyncio.run(pipeline.get_many(KEYS))) == len(KEYS)
    assert (pipeline.faults[memcached.address], pipeline.faults[second.address]) != (None, None)
    assert pipeline.faults[second.address] is None
    asyncio.run(replaced(pipeline, b"t"))
    second.kill()
    with pytest.raises(Unavailable, match="refused"):
        asyncio.run(pipeline.get_many(KEYS))
    with pytest.raises(Unavailable, match="refused"):
        asyncio.run(replaced(pipeline, b"t"))
    pipeline.close()


@pytest.mark.parametrize(
    "garbage", [b"VALUE a 0 -1\r\n\r\nEND\r\n", b"VALUE\r\nEND\r\n", b"HTTP/1.1 400\r\n\r\n"]
)
def test_what_answers_and_is_no_memcached_is_named_and_the_others_go_on(
    memcached: Daemon, garbage: bytes
) -> None:
    for key in KEYS:
        put(memcached.address, key, b"1")
    with answering(garbage) as port:
        other = f"127.0.0.1:{port}"
        pipeline = MemcachedPool(f"{other},{memcached.address}", timeout_s=PATIENT_S)
        for _ in range(2):
            assert asyncio.run(pipeline.get_many(KEYS)) == dict.fromkeys(KEYS, b"1")
            assert pipeline.faults[other] is not None
            assert pipeline.faults[memcached.address] is None
        pipeline.close()


def test_a_table_is_written_to_every_server(memcached: Daemon, second: Daemon) -> None:
    pipeline = MemcachedPool(f"{memcached.address},{second.address}", timeout_s=PATIENT_S)
    for value in (b"s", b"t"):
        asyncio.run(replaced(pipeline, value))
    assert [got(daemon.address, "table") for daemon in (memcached, second)] == [b"t", b"t"]
    pipeline.close()


@pytest.mark.parametrize("before", [None, b"old"], ids=["nothing", "an old table"])
def test_a_table_is_not_put_over_one_that_came_after_the_look(
    memcached: Daemon, before: bytes | None
) -> None:
    pipeline = MemcachedPool(memcached.address, timeout_s=PATIENT_S)
    if before is not None:
        put(memcached.address, "table", before)
    seen = asyncio.run(pipeline.seen(["table"]))
    put(memcached.address, "table", b"another's")
    put_there = asyncio.run(pipeline.replace({"table": b"mine"}, seen, ttl_s=60))
    assert put_there == {memcached.address: {"table": False}}
    assert got(memcached.address, "table") == b"another's"
    pipeline.close()


def test_what_follows_a_value_is_put_where_that_was_and_a_server_that_took_not_every_one_is_named(
    memcached: Daemon, second: Daemon
) -> None:
    pipeline = MemcachedPool(f"{memcached.address},{second.address}", timeout_s=PATIENT_S)
    values = {"table": b"mine", "large": bytes(2**21), "other": b"mine"}
    seen = asyncio.run(pipeline.seen([*values]))
    put(second.address, "table", b"another's")
    then = {key: {f"head-{n}": b"head"} for n, key in enumerate(values)}
    answered = asyncio.run(pipeline.replace(values, seen, ttl_s=60, then=then, then_ttl_s=60))
    refused = "object too large for cache"
    assert answered == {
        memcached.address: {"table": True, "large": refused, "other": True},
        second.address: {"table": False, "large": refused, "other": True},
    }
    heads = [[got(daemon.address, f"head-{n}") for n in range(3)] for daemon in (memcached, second)]
    assert heads == [[b"head", None, b"head"], [None, None, b"head"]]
    assert pipeline.faults == {memcached.address: refused, second.address: refused}
    pipeline.close()


def test_who_may_not_write_writes_nothing(memcached: Daemon) -> None:
    pipeline = MemcachedPool(memcached.address, timeout_s=PATIENT_S)
    seen = asyncio.run(pipeline.seen(["table"]))
    with pytest.raises(Forbidden):
        asyncio.run(pipeline.replace({"table": b"mine"}, seen, ttl_s=60, allowed=lambda: False))
    assert got(memcached.address, "table") is None
    pipeline.close()


def test_a_server_that_fails_is_asked_once_a_tick(memcached: Daemon, second: Daemon) -> None:
    pipeline, skip = MemcachedPool(f"{memcached.address},{second.address}", timeout_s=PATIENT_S), set[str]()
    memcached.kill()
    asyncio.run(pipeline.get_many(KEYS, skip))
    assert skip == {memcached.address}
    memcached.start()
    put(memcached.address, "table", b"t")
    assert set(asyncio.run(pipeline.seen(["table"], skip))) == {second.address}
    # The next tick asks every server again.
    assert set(asyncio.run(pipeline.seen(["table"], set()))) == {memcached.address, second.address}
    pipeline.close()


def test_a_question_ends_at_its_deadline_where_the_only_server_drips() -> None:
    with dripping() as server:
        pipeline = MemcachedPool(server.address)
        for ask in (pipeline.get_many(KEYS), pipeline.seen(KEYS)):
            with pytest.raises(Unavailable, match=f"^{server.address}: timed out$"):
                asyncio.run(ask)
        with pytest.raises(Unavailable, match="timed out"):
            asyncio.run(pipeline.replace({"table": b"t"}, {server.address: {}}, ttl_s=60))
        wait_until(lambda: server.is_dripping)
        pipeline.close()


def test_where_one_server_drips_the_others_answer_and_it_is_asked_once(memcached: Daemon) -> None:
    for key in KEYS:
        put(memcached.address, key, b"1")
    with dripping() as server:
        pipeline, skip = MemcachedPool(f"{server.address},{memcached.address}", timeout_s=2.0), set[str]()
        assert asyncio.run(pipeline.get_many(KEYS, skip)) == dict.fromkeys(KEYS, b"1")
        assert set(asyncio.run(pipeline.seen(KEYS, skip))) == {memcached.address}
        assert pipeline.faults == {server.address: "timed out", memcached.address: None}
        wait_until(lambda: server.is_dripping)  # its thread may be later than the time-out
        assert server.connections == 1
        pipeline.close()


def test_only_the_orders_of_the_keys_that_were_asked_for_last_are_kept(memcached: Daemon) -> None:
    pipeline = MemcachedPool(f"{memcached.address},127.0.0.1:1", timeout_s=PATIENT_S)
    for n in range(100):
        asyncio.run(pipeline.get_many([f"key-{n}", "always"]))
    assert set(pipeline._orders) == {"key-99", "always"}
    pipeline.close()
