"""The audit log in the store: written with the change, in one order, bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis as plain
from steelyard_controller.declarations import audit
from steelyard_controller.declarations.audit import Entry
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.store.interface import LeaseLost, Rejected, Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.store.redis_store import RedisStore

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

WEB = Declaration(upstream=Upstream(peers=[Peer(id="a", address="10.0.0.1:80")]))
KEYS = tuple(f"steelyard:1:audit:{name}" for name in audit.LOGS)
PEOPLE, MACHINES, FILES = KEYS


def run(store: Store, steps: Callable[[Any, Lease], Awaitable[None]]) -> None:
    async def session() -> None:
        draft = Lease(holder="one", boot="1", url="", term=1)
        lease = await store.acquire(draft, lease_s=60, above=0, patient=False)
        assert lease is not None
        try:
            await steps(store, lease)
        finally:
            await store.close()

    asyncio.run(session())


def in_redis(daemon: Daemon) -> Store:
    return RedisStore(f"redis://{daemon.address}/0", timeout_s=PATIENCE_S)


BOTH = pytest.mark.parametrize("make", [in_redis, lambda _: MemoryStore()], ids=["redis", "memory"])


@BOTH
def test_entries_of_people_and_machines_come_in_one_order_and_in_pages(
    redis_server: Daemon, make: Callable[[Daemon], Store]
) -> None:
    async def steps(store: Store, lease: Lease) -> None:
        assert await store.audit(before=None, most=5) == []
        for number in range(0, 10, 2):
            log = number // 2 % 3
            pair = [Entry(log, b"%d" % number), Entry((log + 1) % 3, b"%d" % (number + 1))]
            await store.declare(lease, {"web": WEB}, pair)
        entries = await store.audit(before=None, most=100)
        assert [value for _, value in entries] == [b"%d" % number for number in range(9, -1, -1)]
        assert len({id for id, _ in entries}) == 10
        paged: list[tuple[int, bytes]] = []
        before = None
        while part := await store.audit(before=before, most=3):
            paged += part
            before = part[-1][0]
        assert paged == entries
        # The entries of an upstream outlive it.
        await store.declare(lease, {"web": None}, [Entry(0, b"gone")])
        assert [value for _, value in await store.audit(before=None, most=2)] == [b"gone", b"9"]

    run(make(redis_server), steps)


@BOTH
def test_what_machines_and_files_do_pushes_out_nothing_that_people_did(
    redis_server: Daemon, make: Callable[[Daemon], Store]
) -> None:
    async def steps(store: Store, lease: Lease) -> None:
        of = {log: [Entry(number, log.encode())] for number, log in enumerate(audit.LOGS)}
        await store.declare(lease, {"web": WEB}, of["people"] + of["files"])
        await store.declare(lease, {"web": WEB}, of["machines"] * (audit.KEPT_ENTRIES + 500))
        entries = await store.audit(before=None, most=3 * audit.KEPT_ENTRIES)
        assert len(entries) < audit.KEPT_ENTRIES + 200
        assert [value for _, value in entries[-2:]] == [b"files", b"people"]
        # Nor does a file with thousands of upstreams, which is edited a few times.
        await store.declare(lease, {"web": WEB}, of["files"] * (audit.KEPT_ENTRIES + 500))
        entries = await store.audit(before=None, most=3 * audit.KEPT_ENTRIES)
        assert len(entries) < 2 * audit.KEPT_ENTRIES + 400
        assert (entries[0][1], entries[-1][1]) == (b"files", b"people")

    run(make(redis_server), steps)


def test_a_change_without_its_entry_is_none(redis_server: Daemon) -> None:
    hand: Any = plain.Redis(port=redis_server.port)

    async def steps(store: Store, lease: Lease) -> None:
        for log, key in enumerate(KEYS):
            hand.set(key, "something else")
            with pytest.raises(Rejected, match=f"{PEOPLE}.*{FILES}.*it stays there until you delete it"):
                await store.declare(lease, {"web": WEB}, [Entry(log, b"1")])
            assert (await store.declarations()).known == {}
            hand.delete(key)
        # There is no entry without its change.
        hand.set("steelyard:1:declarations", "something else")
        with pytest.raises(Rejected):
            await store.declare(lease, {"web": WEB}, [Entry(0, b"1")])
        assert hand.exists(PEOPLE) == 0
        hand.delete("steelyard:1:declarations")
        old = Lease(holder="two", boot="1", url="", term=1)
        with pytest.raises(LeaseLost):
            await store.declare(old, {"web": WEB}, [Entry(0, b"1")])
        assert hand.exists(PEOPLE) == 0

    run(in_redis(redis_server), steps)


def test_who_takes_entries_out_by_hand_stops_no_change(redis_server: Daemon) -> None:
    hand: Any = plain.Redis(port=redis_server.port)

    async def steps(store: Store, lease: Lease) -> None:
        await store.declare(lease, {"web": WEB}, [Entry(0, b"1"), Entry(0, b"2")])
        hand.xdel(PEOPLE, hand.xrevrange(PEOPLE, count=1)[0][0])
        hand.xadd(MACHINES, {"e": b"a clock of tomorrow"}, id="9000000000000-5")
        await store.declare(lease, {"web": WEB}, [Entry(0, b"3"), Entry(1, b"4")])
        entries = await store.audit(before=None, most=9)
        assert [value for _, value in entries] == [b"4", b"3", b"a clock of tomorrow", b"1"]

    run(in_redis(redis_server), steps)
