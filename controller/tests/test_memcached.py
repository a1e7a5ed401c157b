"""A pool of Memcached servers, as agents and nginx fill it."""

import asyncio
from collections.abc import Iterator

import pytest
from pymemcache.client.base import Client
from steelyard_agent import rendezvous
from steelyard_controller.memcached import Memcached, Unavailable

from conftest import Daemon, free_port

pytestmark = pytest.mark.integration

KEYS = [f"steelyard:1:sample:web:server-{n}" for n in range(20)]


def put(address: str, key: str, value: bytes) -> None:
    host, port = address.split(":")
    client = Client((host, int(port)), connect_timeout=1, timeout=1)
    client.set(key, value, noreply=False)
    client.close()


def got(address: str, key: str) -> bytes | None:
    host, port = address.split(":")
    client = Client((host, int(port)), connect_timeout=1, timeout=1)
    value: bytes | None = client.get(key)
    client.close()
    return value


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
    pipeline = Memcached(",".join(servers))
    assert asyncio.run(pipeline.get_many([*KEYS, "absent"])) == {key: key.encode() for key in KEYS}
    pipeline.close()


def test_the_first_servers_value_counts_where_both_have_one(memcached: Daemon, second: Daemon) -> None:
    servers = [memcached.address, second.address]
    for key in KEYS:
        first, other = rendezvous.order(servers, key)
        put(first, key, b"new")
        put(other, key, b"old")
    pipeline = Memcached(",".join(servers))
    assert set(asyncio.run(pipeline.get_many(KEYS)).values()) == {b"new"}
    pipeline.close()


def test_a_dead_server_is_named_and_the_others_go_on(memcached: Daemon, second: Daemon) -> None:
    pipeline = Memcached(f"{memcached.address},{second.address}")
    for key in KEYS:
        put(second.address, key, b"1")
    memcached.kill()
    assert len(asyncio.run(pipeline.get_many(KEYS))) == len(KEYS)
    assert (pipeline.faults[memcached.address], pipeline.faults[second.address]) != (None, None)
    assert pipeline.faults[second.address] is None
    asyncio.run(pipeline.set("table", b"t", ttl_s=60))
    second.kill()
    with pytest.raises(Unavailable, match="refused"):
        asyncio.run(pipeline.get_many(KEYS))
    with pytest.raises(Unavailable, match="refused"):
        asyncio.run(pipeline.set("table", b"t", ttl_s=60))
    pipeline.close()


def test_a_table_is_written_to_every_server(memcached: Daemon, second: Daemon) -> None:
    pipeline = Memcached(f"{memcached.address},{second.address}")
    asyncio.run(pipeline.set("table", b"t", ttl_s=60))
    assert [got(daemon.address, "table") for daemon in (memcached, second)] == [b"t", b"t"]
    pipeline.close()
