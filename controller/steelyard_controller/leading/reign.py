"""Leading and standing by: the lease is kept, what is known is taken up, and while it is ours the loop ticks.

I/O by its parts. Two tasks: one asks for the lease each third of its length,
the other ticks. Whichever of them finds that the lease is gone ends the ticks;
at the end of the process the tick that is under way is let end before the
lease is given back, because a thread that is writing cannot be called back.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from steelyard_controller import grid
from steelyard_controller.cycle import Cycle
from steelyard_controller.faults import Faults
from steelyard_controller.leading.leadership import Leadership
from steelyard_controller.leading.taking_up import TakingUp
from steelyard_controller.loop import Loop
from steelyard_controller.pipeline.memcached import Forbidden
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.saved import Newer
from steelyard_controller.state.store import Lost, Unavailable

log = logging.getLogger("steelyard.controller")

Addresses = Callable[[Mapping[str, Cycle]], Awaitable[Mapping[str, Mapping[str, str]]]]
"""Returns the resolved addresses of the peers that have names, by upstream and peer."""


class Reign:
    """One controller's time in the lead, and in between.

    `on_tick` is awaited with each upstream that had its tick, `on_step` each time that it was seen who
    leads. `changing` is held while what is declared may not change.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        leadership: Leadership,
        taking_up: TakingUp,
        faults: Faults,
        tick_s: float,
        lease_s: float,
        addresses: Addresses,
        on_tick: Callable[[Cycle], Awaitable[None]],
        on_step: Callable[[], Awaitable[None]],
    ) -> None:
        self.led: Lease | None = None
        """The lease under which this controller leads, with all taken up that is known; None: it does not."""
        self.changing = asyncio.Lock()
        self._loop = loop
        self._leadership = leadership
        self._taking_up = taking_up
        self._faults = faults
        self._tick_s = tick_s
        self._lease_s = lease_s
        self._addresses = addresses
        self._on_tick = on_tick
        self._on_step = on_step
        self._stepping = asyncio.Lock()
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Lead or stand by until cancelled; then give the lease back."""
        tasks = [
            asyncio.create_task(self._keep_lease(), name="lease"),
            asyncio.create_task(self._tick_for_ever(), name="ticks"),
        ]
        try:
            await asyncio.wait(tasks)
        finally:
            # What is under way is let end, which does not take long.
            self._stopping.set()
            self._begun.set()
            await asyncio.wait(tasks)
            if self.led is not None:
                await self._loop.save_all(self.led)
            self.led = None
            await self._leadership.release()

    async def _keep_lease(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._step()
            except Exception:
                log.exception("keeping the lease failed; it is tried again")
            await self._pause(self._lease_s / 3)

    async def _step(self) -> None:
        async with self._stepping:
            await self._leadership.step(self._taking_up.highest_term)
            await self._follow_lease()
            await self._on_step()

    async def _follow_lease(self) -> None:
        async with self.changing:
            lease = self._leadership.lease
            if lease is None:
                if self.led is not None:
                    self._stop_leading()
            elif self.led is None or self.led.term != lease.term:
                await self._begin(lease)

    def _stop_leading(self) -> None:
        self.led = None
        self._begun.clear()
        for cycle in self._loop.cycles.values():
            cycle.outcome = None

    async def _begin(self, lease: Lease) -> None:
        try:
            refused = await self._taking_up.begin(lease)
        except (Unavailable, Lost, Newer) as error:
            self._refuse_to_lead(str(error))
        except Exception:
            # A mistake of ours, which another controller may not make.
            log.exception("leading could not begin")
            self._refuse_to_lead("see the log")
        else:
            for name, refusal in refused.items():
                self._faults.note(f"{name} in the file", refusal)
            self._faults.note("leading", None)
            self.led = lease
            self._begun.set()
            log.info(
                "leading in term %d: %s", lease.term,
                ", ".join(self._loop.cycles) or "no upstream is declared yet",
                extra={"event": "leading", "term": lease.term},
            )  # fmt: skip

    def _refuse_to_lead(self, why: str) -> None:
        self._faults.note("leading", why)
        self._leadership.drop(f"leading could not begin ({why})", rest=True)
        if self.led is not None:
            self._stop_leading()

    async def _tick_for_ever(self) -> None:
        while not self._stopping.is_set():
            await self._begun.wait()
            due_s = time.monotonic()
            while self.led is not None and not self._stopping.is_set():
                await self._tick_guarded()
                due_s, missed = grid.following(due_s, time.monotonic(), self._tick_s)
                if missed:
                    self._count_overruns(missed)
                await self._pause(due_s - time.monotonic())

    def _count_overruns(self, missed: int) -> None:
        for cycle in self._loop.cycles.values():
            cycle.overruns += missed
        log.warning("a tick overran: %d left out", missed, extra={"event": "overrun"})

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until this is to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stopping.wait()

    async def _tick_guarded(self) -> None:
        lease = None
        try:
            # After a pause, the first thing to know is who leads; of a store that is away it is known.
            if not self._leadership.certain and self._leadership.is_due:
                await self._step()
            lease = self.led
            if lease is not None:
                await self._loop.tick(
                    time.monotonic(),
                    lease=lease,
                    certain=self._permission(lease),
                    keep=self._leadership.certain,
                    addresses=await self._addresses(self._loop.cycles),
                    done=self._on_tick,
                )
        except Lost as error:
            if lease is self._leadership.lease:
                self._leadership.drop(str(error))
            await self._step()
        except Forbidden:
            pass  # The lease ran out within the tick; the next one asks for it first.
        except Exception:
            # The loop must outlive a mistake of ours: the last table holds, the next tick tries again.
            log.exception("this tick failed; the last tables hold")

    def _permission(self, lease: Lease) -> Callable[[], bool]:
        """Return what tells whether to write under a lease: while it is certain, or, if it is not, ours."""
        sure = self._leadership.certain
        return lambda: self._leadership.lease is lease and (self._leadership.certain or not sure)
