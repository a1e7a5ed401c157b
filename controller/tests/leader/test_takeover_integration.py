"""A takeover of too many upstreams for one lease, on a real Redis and Memcached."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import pytest
from pymemcache.client.base import Client
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.leader.takeover import PEERS_AT_ONCE
from steelyard_controller.service import Service
from steelyard_controller.store.interface import Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.redis_store import RedisStore
from steelyard_controller.store.saved_state import SavedState
from steelyard_protocol import weight_table, wire
from steelyard_protocol.weight_table import WeightTable

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S

from ..session import session

pytestmark = pytest.mark.integration

LEASE_S = 6.0
PEERS = 10

# Three parts; the last one is not full.
NAMES = [f"up-{number:03d}" for number in range(2 * PEERS_AT_ONCE // PEERS + 30)]


async def until(look: Callable[[], object]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            await asyncio.sleep(0.05)  # most look at hundreds of tables


class WatchedStore(RedisStore):
    """A store that does `before_load` before it loads a part, and records the state of the lease."""

    def __init__(self, redis: Daemon) -> None:
        super().__init__(f"redis://{redis.address}/0", timeout_s=PATIENCE_S)
        self.terms: set[int] = set()
        self.renewals: list[bool] = []
        self.parts: list[list[str]] = []
        self.before_load: Callable[[list[str]], Awaitable[None]] | None = None

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease | None:
        lease = await super().acquire(draft, lease_s=lease_s, above=above, patient=patient)
        self.terms |= set() if lease is None else {lease.term}
        return lease

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        self.renewals.append(await super().renew(lease, lease_s=lease_s))
        return self.renewals[-1]

    async def load(self, upstreams: Sequence[str]) -> Mapping[str, SavedState]:
        if self.before_load is not None:
            await self.before_load(list(upstreams))
        self.parts.append(list(upstreams))
        return await super().load(upstreams)


def tables(memcached: Daemon) -> dict[str, WeightTable]:
    """Return the tables in Memcached by upstream."""
    client = Client(("127.0.0.1", memcached.port))
    held = client.get_many([wire.weights_key(name) for name in NAMES])
    client.close()
    decoded = [weight_table.decode(value) for value in held.values()]
    return {table.upstream: table for table in decoded if isinstance(table, WeightTable)}


@contextlib.asynccontextmanager
async def taking_over(memcached: Daemon, redis: Daemon, store: WatchedStore) -> AsyncIterator[Service]:
    """Yield a running service with enough declared upstreams for three parts."""
    peers = [Peer(id=f"server-{n}", address=f"10.0.0.{n}:80") for n in range(PEERS)]
    draft = Lease(holder="before", boot="1", url="", term=1)
    before = await store.acquire(draft, lease_s=PATIENCE_S, above=0, patient=False)
    assert before is not None
    await store.declare(before, {name: Declaration(upstream=Upstream(peers=peers)) for name in NAMES})
    await store.release(before)
    async with session(memcached, redis, file={}, store=store, lease_s=LEASE_S) as it:
        task = asyncio.create_task(it.service.run())
        try:
            yield it.service
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def test_the_lease_is_renewed_and_each_part_has_its_tables_before_the_next_is_read(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def run() -> None:
        store = WatchedStore(redis_server)
        published: list[set[str]] = []

        async def wait(_: list[str]) -> None:
            published.append(set(tables(memcached)))
            # Two thirds of a lease, three times: in all, twice as long as the lease.
            renewed = len(store.renewals)
            await until(lambda: len(store.renewals) >= renewed + 2)

        store.before_load = wait
        async with taking_over(memcached, redis_server, store) as service:
            first, *_ = store.terms
            await until(lambda: service.role == "leader" and len(tables(memcached)) == len(NAMES))
            assert all(store.renewals)
            assert store.terms == {first, first + 1}
            assert {table.term for table in tables(memcached).values()} == {first + 1}
        assert [len(names) for names in published] == [0, 100, 200]
        assert published[2] == {*store.parts[0], *store.parts[1]}
        assert sorted(name for part in store.parts for name in part) == NAMES

    asyncio.run(run())


def test_a_store_that_goes_away_meanwhile_keeps_the_rest_waiting_and_stops_no_tick(
    memcached: Daemon, redis_server: Daemon
) -> None:
    async def run() -> None:
        store, away = WatchedStore(redis_server), asyncio.Event()

        # This is not the first part again: a busy machine may lose the lease before that is published.
        async def fail(part: list[str]) -> None:
            if store.parts and part != store.parts[0] and not away.is_set():
                raise Unavailable("cut off")

        store.before_load = fail
        async with taking_over(memcached, redis_server, store) as service:
            await until(lambda: len(tables(memcached)) == 100)
            name = store.parts[0][0]
            generation = tables(memcached)[name].generation
            await until(lambda: tables(memcached)[name].generation > generation + 1)
            assert set(tables(memcached)) == set(store.parts[0])
            assert any("130 upstreams keep their last tables" in line for line in service.degraded)
            assert service.role == "leader"
            away.set()
            await until(lambda: len(tables(memcached)) == len(NAMES))
            await until(lambda: not service.degraded)

    asyncio.run(run())
