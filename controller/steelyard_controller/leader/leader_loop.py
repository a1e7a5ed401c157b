"""The leader loop: keep or seek the lease; after a takeover, tick for as long as the lease is ours.

I/O by its parts. Two tasks: one steps the election each third of a lease, also
while it takes over; the other ticks. Whichever of them finds that the lease is
lost ends the ticks; at the end of the process the running tick is completed
before the lease is released, because a thread that writes cannot be cancelled.

Who leads must tick: a tick that makes no progress for `stuck_after_s` gives the
lease up to a controller whose ticks do, and is not waited for at the end.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from steelyard_protocol import clock_phase, name_list
from steelyard_protocol.clock_phase import Pace
from steelyard_protocol.memcached_pool import Forbidden

from steelyard_controller.faults import Faults
from steelyard_controller.leader.election import Election
from steelyard_controller.leader.takeover import MOST_SHOWN, Takeover
from steelyard_controller.store.interface import LeaseLost, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import NewerVersion
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")

Result = TypeVar("Result")

# A tick of thousands of servers may outlast its period; one that gets nothing done for this many is stuck.
STUCK_TICKS = 2

# A step waits a quarter of a second for Memcached or Redis; a machine that is busy may stretch that tenfold.
STUCK_LEAST_S = 3.0

# It may go on; after this many times what counts as stuck nobody should wait for it.
DEAD_AFTER = 3

Addresses = Callable[[Mapping[str, Cycle]], Awaitable[Mapping[str, Mapping[str, str]]]]
"""Returns the resolved addresses of the peers that are declared by host names, by upstream and peer."""


class LeaderLoop:
    """Leads while it has the lease, and stands by otherwise.

    `ticked` is called after each tick with its seconds, and those that it began after it was due;
    `on_tick` with each upstream after its tick, `on_step` is awaited after each step of the
    election. The lock `changing` is held while declarations change, or must not change.
    """

    def __init__(
        self,
        *,
        loop: TickLoop,
        election: Election,
        takeover: Takeover,
        faults: Faults,
        tick_s: float,
        lease_s: float,
        addresses: Addresses,
        ticked: Callable[[float, float], None],
        on_tick: Callable[[Cycle], None],
        on_step: Callable[[], Awaitable[None]],
    ) -> None:
        self._loop = loop
        self._election = election
        self._takeover = takeover
        self._faults = faults
        self._tick_s = tick_s
        self._lease_s = lease_s
        self._addresses = addresses
        self._ticked = ticked
        self._on_tick = on_tick
        self._on_step = on_step
        self._led: Lease | None = None
        self.changing = asyncio.Lock()
        self.stuck_after_s = max(STUCK_TICKS * tick_s, lease_s, STUCK_LEAST_S)
        self._is_abandoned = False
        self._stepping = asyncio.Lock()
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._progressed_s: float | None = None

    @property
    def led(self) -> Lease | None:
        """The lease under which this controller leads, once its takeover is done; None: it does not."""
        return self._led

    @property
    def is_abandoned(self) -> bool:
        """Whether the loop ended without its last tick, whose thread may never end."""
        return self._is_abandoned

    @property
    def stuck_s(self) -> float:
        """Return for how long the running tick has made no progress; 0 up to `stuck_after_s`."""
        idle_s = 0.0 if self._progressed_s is None else time.monotonic() - self._progressed_s
        return idle_s if idle_s > self.stuck_after_s else 0.0

    @property
    def is_dead(self) -> bool:
        """Tell whether a tick has been stuck for so long that only a restart will mend it."""
        return self.stuck_s > DEAD_AFTER * self.stuck_after_s

    async def run(self) -> None:
        """Lead or stand by until cancelled; then release the lease. Raises what nobody foresaw."""
        tasks = [
            asyncio.create_task(self._keep_lease(), name="lease"),
            asyncio.create_task(self._tick_for_ever(), name="ticks"),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            # Not cancelled: the step and the tick that run are completed, which does not take long.
            self._stopping.set()
            self._begun.set()
            _, running = await asyncio.wait(tasks, timeout=self.stuck_after_s)
            self._is_abandoned = bool(running)
            for task in running:
                log.error("%s do not end; the process ends without them", task.get_name())
                task.cancel()
            if self._led is not None and not running:
                await self._loop.save_last(self._led)
            self._led = None
            await self._election.release()

    async def _keep_lease(self) -> None:
        while not self._stopping.is_set():
            try:
                self._give_up_if_stuck()
                await self._step()
            except Exception:
                log.exception("keeping the lease failed; it is tried again")
            began_s = time.monotonic()
            await self._pause(self._lease_s / 3)
            if self._progressed_s is not None and time.monotonic() - began_s > self._lease_s:
                # This process stood still, and the tick with it: that says nothing of the tick.
                self._progressed_s = time.monotonic()

    def _give_up_if_stuck(self) -> None:
        """Leave the lease to others while the running tick makes no progress; take it again once it does."""
        if self.stuck_s == 0.0:
            self._faults.note("ticks", None)
            return
        why = f"its tick has made no progress for {self.stuck_s:.0f} s"
        self._faults.note("ticks", f"{why}: others may lead; see the log, and restart this controller")
        self._election.drop(why, rest=True)

    async def _step(self) -> None:
        async with self._stepping:
            await self._election.step(self._takeover.highest_term)
            await self._follow_lease()
            await self._on_step()

    async def _follow_lease(self) -> None:
        async with self.changing:
            lease = self._election.lease
            if lease is None:
                if self._led is not None:
                    self._stop_leading()
            elif self._led is None or self._led.term != lease.term:
                await self._begin(lease)

    def _stop_leading(self) -> None:
        self._led = None
        self._begun.clear()
        self._faults.note("resuming", None)
        for cycle in self._loop.cycles.values():
            cycle.outcome = None

    async def _begin(self, lease: Lease) -> None:
        try:
            refused = await self._renewing(self._takeover.begin(lease))
        except (Unavailable, LeaseLost, NewerVersion) as error:
            self._refuse_to_lead(str(error))
        except Exception:
            # A bug, which another controller's version or data may not have.
            log.exception("leading could not begin")
            self._refuse_to_lead("see the log")
        else:
            for name, refusal in refused.items():
                self._faults.note(f"{name} in the file", refusal)
            self._faults.note("leading", None)
            self._led = lease
            self._begun.set()
            log.info(
                "leading in term %d: %s", lease.term,
                name_list.shown(self._loop.cycles, MOST_SHOWN) or "no upstream is declared yet",
                extra={"event": "leading", "term": lease.term},
            )  # fmt: skip

    async def _renewing(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do some work, and renew the lease meanwhile; whether it was lost is the next step's to see."""
        doing = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({doing}, timeout=self._lease_s / 3))[0]:
                await self._election.step(self._takeover.highest_term)
            return doing.result()
        finally:
            doing.cancel()

    def _refuse_to_lead(self, why: str) -> None:
        self._faults.note("leading", why)
        self._election.drop(f"leading could not begin ({why})", rest=True)
        if self._led is not None:
            self._stop_leading()

    async def _tick_for_ever(self) -> None:
        while not self._stopping.is_set():
            await self._begun.wait()
            pace = self._pace()
            while self._led is not None and not self._stopping.is_set():
                self._progressed()
                began_s = time.monotonic()
                resumed = await self._tick_guarded()
                self._progressed_s = None
                if resumed:
                    pace = self._pace()
                    continue
                self._ticked(time.monotonic() - began_s, began_s - pace.due_s)
                missed = pace.next(time.monotonic(), time.time())
                if missed:
                    for cycle in self._loop.cycles.values():
                        cycle.overruns += missed
                    log.warning("a tick overran: %d left out", missed, extra={"event": "overrun"})
                await self._pause(pace.due_s - time.monotonic())

    def _pace(self) -> Pace:
        return Pace(
            time.monotonic(), interval_s=self._tick_s, instant_s=clock_phase.CONTROLLER_S, shortest=0.0
        )

    def _progressed(self) -> None:
        self._progressed_s = time.monotonic()

    async def _pause(self, seconds: float) -> None:
        """Sleep, until the loop is to stop at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stopping.wait()

    async def _tick_guarded(self) -> bool:
        """Do one tick; tell whether it was the first of some upstreams: others may wait for theirs."""
        lease, resumed = None, False
        try:
            # After a pause, first find out who leads; `is_due` spares a store that is away the question.
            if not self._election.certain and self._election.is_due:
                await self._step()
            lease = self._led
            if lease is not None:
                with self._loop.span("tick"):
                    first = await self._takeover.resume(lease)
                    resumed = bool(first)
                    await self._loop.tick(
                        time.monotonic(),
                        lease=lease,
                        certain=self._permission(lease),
                        # Nothing has been learnt yet that was not read just now.
                        keep=self._election.certain and not resumed,
                        only=first or None,
                        addresses=await self._addresses(self._loop.cycles),
                        done=self._on_tick,
                        progressed=self._progressed,
                    )
        except LeaseLost as error:
            if lease is self._election.lease:
                self._election.drop(str(error))
            await self._step()
        except NewerVersion as error:
            async with self.changing:
                self._refuse_to_lead(str(error))
            await self._step()
        except Forbidden:
            pass  # The lease ran out within the tick; the next one asks for it first.
        except Exception:
            # The loop must survive a bug: the last table holds, the next tick tries again.
            log.exception("this tick failed; the last tables hold")
        return resumed

    def _permission(self, lease: Lease) -> Callable[[], bool]:
        """Return the check before each write of a tick: the lease is ours, and as certain as at the start."""
        sure = self._election.certain
        return lambda: self._election.lease is lease and (self._election.certain or not sure)
