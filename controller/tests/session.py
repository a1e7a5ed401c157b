"""A controller's service within the test's own process, a tick at a time, on real daemons."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.leading.leadership import Leadership
from steelyard_controller.leading.taking_up import TakingUp
from steelyard_controller.loop import Loop
from steelyard_controller.outcome import Outcome
from steelyard_controller.pipeline.memcached import Memcached
from steelyard_controller.service import Service
from steelyard_controller.state.redis_store import Redis
from steelyard_controller.state.store import Store

from conftest import PATIENCE_S, Daemon


@dataclass
class Session:
    """The parts of a service, for a test that calls them one by one."""

    service: Service
    loop: Loop
    leadership: Leadership
    store: Store
    taking_up: TakingUp

    @property
    def outcome(self) -> Outcome:
        """Return what the last tick of `web` came to."""
        outcome = self.loop.cycles["web"].outcome
        assert outcome is not None
        return outcome

    async def lead(self) -> None:
        """Take the lease and what is known."""
        async with asyncio.timeout(PATIENCE_S):
            await self.leadership.step(self.taking_up.highest_term)
            while self.leadership.lease is None:
                await asyncio.sleep(0.05)
                await self.leadership.step(self.taking_up.highest_term)
        await self.taking_up.begin(self.leadership.lease)

    async def tick(self, now_s: float) -> Outcome:
        """Do one tick."""
        lease = self.leadership.lease
        assert lease is not None
        await self.loop.tick(now_s, lease=lease, certain=lambda: True, addresses={})
        return self.outcome


@contextlib.asynccontextmanager
async def session(
    memcached: Daemon,
    redis: Daemon | None,
    *,
    file: Mapping[str, Upstream],
    store: Store | None = None,
    url: str | None = None,
    key: bytes | None = None,
    unix_s: float | None = None,
    id: str = "a",
    tick_s: float = 1.0,
    lease_s: float = 3.0,
) -> AsyncIterator[Session]:
    """Yield a service that does nothing yet, and close its connections; the lease runs out by itself."""
    pipeline = Memcached(memcached.address)
    kept = store or Redis(url or f"redis://{redis.address}/0")  # type: ignore[union-attr]
    faults = Faults()
    leadership = Leadership(
        kept, holder=id, boot="1", url=f"http://{id}", lease_s=lease_s, clock=time.monotonic,
        unix=(lambda: unix_s) if unix_s is not None else time.time, faults=faults,
    )  # fmt: skip
    loop = Loop(pipeline=pipeline, store=kept, tick_s=tick_s, history_s=60, key=key, faults=faults)
    service = Service(
        id=id, loop=loop, leadership=leadership, store=kept, faults=faults, file=file, tick_s=tick_s,
        lease_s=lease_s, version="0",
    )  # fmt: skip
    try:
        yield Session(service, loop, leadership, kept, TakingUp(loop=loop, store=kept, file=file))
    finally:
        await leadership.release()
        pipeline.close()
        await kept.close()
