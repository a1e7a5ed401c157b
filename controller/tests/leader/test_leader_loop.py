"""The leader loop with hand-made ticks that hang, and with unexpected errors."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from steelyard_controller.faults import Faults
from steelyard_controller.leader import leader_loop
from steelyard_controller.leader.election import Election
from steelyard_controller.leader.leader_loop import LeaderLoop
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore

from testing.waiting import PATIENCE_S

TICK_S, LEASE_S = 0.1, 0.5


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tick be stuck after a lease, however short."""
    monkeypatch.setattr(leader_loop, "STUCK_LEAST_S", 0.0)


class HandMadeTicks:
    """A tick loop whose ticks last until `go_on` is set, and make progress only on request."""

    def __init__(self) -> None:
        self.cycles: dict[str, Any] = {}
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.progresses = False
        self.begun = self.done = self.saved = 0

    def span(self, _: str) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    async def tick(self, _: float, *, progressed: Callable[[], None], **__: object) -> None:
        self.begun += 1
        while not self.go_on.is_set():
            if self.progresses:
                progressed()
            await asyncio.sleep(0.01)
        self.done += 1

    async def save_last(self, _: Lease) -> None:
        self.saved += 1


class Takeovers:
    """Takeovers without any declarations."""

    async def highest_term(self) -> int:
        return 0

    async def begin(self, _: Lease) -> Mapping[str, str | None]:
        return {}

    async def resume(self, _: Lease) -> list[str]:
        return []


class CountingStore(MemoryStore):
    """A store that counts how often the lease was taken and renewed."""

    acquired = renewed = 0

    async def acquire(self, draft: Lease, *, lease_s: float, above: int, patient: bool) -> Lease:
        self.acquired += 1
        return await super().acquire(draft, lease_s=lease_s, above=above, patient=patient)

    async def renew(self, lease: Lease, *, lease_s: float) -> bool:
        self.renewed += 1
        return await super().renew(lease, lease_s=lease_s)


class Leading:
    """A leader loop that runs, and its parts."""

    def __init__(self, *, lease_s: float = LEASE_S, takeover: Takeovers | None = None) -> None:
        self.ticked: list[tuple[float, ...]] = []
        self.ticks, self.faults, self.store = HandMadeTicks(), Faults(), CountingStore()
        self.election = Election(
            self.store, holder="a", boot="1", url="http://a", lease_s=lease_s, clock=time.monotonic,
            unix=time.time, faults=self.faults,
        )  # fmt: skip

        async def nothing(*_: object) -> Any:
            return {}

        self.loop = LeaderLoop(
            loop=self.ticks,  # type: ignore[arg-type]
            election=self.election,
            takeover=takeover or Takeovers(),  # type: ignore[arg-type]
            faults=self.faults,
            tick_s=TICK_S,
            lease_s=lease_s,
            addresses=nothing,
            ticked=lambda *measured: self.ticked.append(measured),
            on_tick=lambda _: None,
            on_step=nothing,
        )
        self.task = asyncio.create_task(self.loop.run())

    async def until(self, look: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not look():
                await asyncio.sleep(0.01)

    async def hang(self) -> None:
        """Return when a tick hangs."""
        self.ticks.go_on.clear()
        await self.until(lambda: self.ticks.begun > self.ticks.done)

    async def wait(self, seconds: float) -> None:
        """Return after this time or more."""
        until_s = time.monotonic() + seconds
        await self.until(lambda: time.monotonic() > until_s)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def test_a_tick_that_hangs_gives_the_lease_up_until_it_ends() -> None:
    async def run() -> None:
        it = Leading()
        await it.until(lambda: it.ticks.done > 1)
        await it.hang()
        await it.until(lambda: it.loop.led is None)
        assert it.loop.stuck_s > it.loop.stuck_after_s
        assert "made no progress" in str(it.faults.now["ticks"])
        assert await it.store.leader() is None  # It was released, so a standby need not wait for its end.
        it.ticks.go_on.set()
        await it.until(lambda: it.loop.led is not None)
        await it.until(lambda: "ticks" not in it.faults.now)
        assert it.loop.stuck_s == 0
        await it.stop()
        assert (it.loop.is_abandoned, it.ticks.saved) == (False, 1)

    asyncio.run(run())


def test_a_long_tick_that_makes_progress_keeps_the_lease() -> None:
    async def run() -> None:
        # A process without CPU for this long loses its lease, with progress or without.
        it = Leading(lease_s=2.0)
        await it.until(lambda: it.ticks.done > 1)
        it.ticks.progresses = True
        await it.hang()
        led = it.loop.led
        await it.wait(1.5 * it.loop.stuck_after_s)
        assert it.loop.led is led is not None
        it.ticks.go_on.set()
        await it.stop()

    asyncio.run(run())


def test_the_end_does_not_wait_for_a_tick_that_hangs() -> None:
    async def run() -> None:
        it = Leading()
        await it.until(lambda: it.ticks.done > 1)
        await it.hang()
        async with asyncio.timeout(PATIENCE_S):
            await it.stop()
        assert it.loop.is_abandoned
        assert it.ticks.saved == 0
        assert await it.store.leader() is None

    asyncio.run(run())


def test_a_takeover_that_outlasts_the_lease_renews_it_meanwhile() -> None:
    class Slow(Takeovers):
        go_on = asyncio.Event()

        async def begin(self, _: Lease) -> Mapping[str, str | None]:
            await self.go_on.wait()
            return {}

    async def run() -> None:
        it = Leading(takeover=Slow())
        await it.until(lambda: it.store.renewed > 3)
        assert it.loop.led is None
        Slow.go_on.set()
        await it.until(lambda: it.ticks.done)
        assert it.store.acquired == 1
        await it.stop()

    asyncio.run(run())


def test_what_nobody_foresaw_ends_the_loop_and_releases_the_lease() -> None:
    async def run() -> None:
        it = Leading()
        await it.until(lambda: it.ticks.done > 1)
        it.ticks.cycles = {"web": SimpleNamespace()}  # It has no counters, so noting a missed tick raises.
        await it.hang()
        await it.wait(3 * TICK_S)
        it.ticks.go_on.set()
        with pytest.raises(AttributeError):
            async with asyncio.timeout(PATIENCE_S):
                await it.task
        assert await it.store.leader() is None

    asyncio.run(run())
