"""A controller's service within the test's own process, a tick at a time, on real daemons."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.instruments import Instruments
from steelyard_controller.leader.election import Election
from steelyard_controller.leader.takeover import Takeover
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.service import Service
from steelyard_controller.store.interface import Store
from steelyard_controller.store.redis_store import TIMEOUT_S, RedisStore
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.tick_loop import TickLoop
from steelyard_protocol.memcached_pool import MemcachedPool

from testing.daemons import Daemon
from testing.waiting import PATIENCE_S


async def no_names(_: Mapping[str, Cycle]) -> Mapping[str, Mapping[str, str]]:
    """Return no addresses: every peer is declared as IP:port."""
    return {}


@dataclass
class Session:
    """The parts of a service, for a test that calls them separately."""

    service: Service
    loop: TickLoop
    election: Election
    store: Store
    takeover: Takeover
    asked: list[str]
    """The Memcached server of each request so far."""

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the last tick of `web`."""
        outcome = self.loop.cycles["web"].outcome
        assert outcome is not None
        return outcome

    async def lead(self) -> None:
        """Take the lease, the declarations and the saved states."""
        async with asyncio.timeout(PATIENCE_S):
            await self.election.step(self.takeover.highest_term)
            while self.election.lease is None:
                await asyncio.sleep(0.05)
                await self.election.step(self.takeover.highest_term)
        await self.takeover.begin(self.election.lease)
        while await self.takeover.resume(self.election.lease):
            pass

    async def tick(self, now_s: float) -> Outcome:
        """Do one tick."""
        lease = self.election.lease
        assert lease is not None
        await self.loop.tick(now_s, lease=lease, certain=lambda: True, addresses={})
        return self.outcome


@contextlib.asynccontextmanager
async def session(
    memcached: Daemon,
    redis: Daemon | None,
    *,
    file: Mapping[str, Upstream],
    servers: str | None = None,
    store: Store | None = None,
    url: str | None = None,
    key: bytes | None = None,
    unix_s: float | None = None,
    id: str = "a",
    tick_s: float = 1.0,
    lease_s: float = 60.0,
) -> AsyncIterator[Session]:
    """Yield a service that does nothing yet; release its lease and close its connections at the end.

    Nothing renews the lease: steps that outlast `lease_s` fail as LeaseLost. A lease shorter than a busy
    machine may need is only for a test that waits for its end.
    `servers` are the Memcached servers; None: `memcached` alone.
    """
    asked: list[str] = []
    pipeline = MemcachedPool(servers or memcached.address, took=lambda server, _: asked.append(server))
    if store is None:
        # Redis hangs only behind a URL of the test's own, a proxy's.
        timeout_s = TIMEOUT_S if url else PATIENCE_S
        store = RedisStore(url or f"redis://{redis.address}/0", timeout_s=timeout_s)  # type: ignore[union-attr]
    faults = Faults()
    election = Election(
        store, holder=id, boot="1", url=f"http://{id}", lease_s=lease_s, clock=time.monotonic,
        unix=(lambda: unix_s) if unix_s is not None else time.time, faults=faults,
    )  # fmt: skip
    loop = TickLoop(
        pipeline=pipeline, store=store, tick_s=tick_s, history_s=60, keys=Keyring(shared=key), faults=faults
    )
    service = Service(
        id=id, loop=loop, election=election, store=store, faults=faults, file=file, tick_s=tick_s,
        lease_s=lease_s, version="0", instruments=Instruments("0"), addresses=no_names,
    )  # fmt: skip
    try:
        takeover = Takeover(loop=loop, store=store, file=file, faults=faults)
        yield Session(service, loop, election, store, takeover, asked)
    finally:
        await election.release()
        pipeline.close()
        await store.close()
