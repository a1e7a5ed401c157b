"""The leader loop: hold or seek the lease; after a takeover, tick for as long as this controller holds it.

I/O by its parts. It has two tasks. One steps the election each third of a lease,
even during a takeover; the other ticks. The ticks end when either task finds
that the lease is lost. At the end of the process, the running tick is completed
before the lease is released, because a thread that writes cannot be cancelled.

A leader must tick. If a tick makes no progress for `stuck_after_s`, this
controller gives the lease up to another one, and the end of the process does
not wait for that tick.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from steelyard_protocol import clock_phase, name_list
from steelyard_protocol.clock_phase import Pace
from steelyard_protocol.memcached_pool import Forbidden

from steelyard_controller.faults import Faults
from steelyard_controller.leader.contested_terms import ContestedTerms
from steelyard_controller.leader.election import Election
from steelyard_controller.leader.takeover import MOST_SHOWN, Takeover
from steelyard_controller.store.interface import HigherTerm, LeaseLost, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import NewerVersion
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")

Result = TypeVar("Result")

# A tick of thousands of servers may outlast its period. One without progress for this many periods is stuck.
STUCK_TICKS = 2

# A step waits a quarter of a second for Memcached or Redis; a busy machine may stretch that tenfold.
STUCK_LEAST_S = 3.0

# A stuck tick may still go on. After this many times `stuck_after_s`, only a restart helps.
DEAD_AFTER = 3

TELL_OVERRUN_EVERY_S = 60.0

Addresses = Callable[[Mapping[str, Cycle]], Awaitable[Mapping[str, Mapping[str, str]]]]
"""Returns the IP:port of each peer with a host name, by upstream and peer."""


class LeaderLoop:
    """Leads while it has the lease, and stands by otherwise.

    ticked    called after each tick, with its duration and its delay, in seconds
    on_tick   called with each upstream after its tick
    on_step   awaited after each step of the election
    changing  a lock, held while declarations change or must not change
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
        self._contested = ContestedTerms()
        self.changing = asyncio.Lock()
        self.stuck_after_s = max(STUCK_TICKS * tick_s, lease_s, STUCK_LEAST_S)
        self._is_abandoned = False
        self._stepping = asyncio.Lock()
        self._begun = asyncio.Event()
        self._stopping = asyncio.Event()
        self._progressed_s: float | None = None
        self._left_out = 0
        self._told_overrun_s = -math.inf

    @property
    def led(self) -> Lease | None:
        """Return the lease under which this controller leads, once its takeover is done; else None."""
        return self._led

    @property
    def is_abandoned(self) -> bool:
        """Return whether the loop ended without its last tick, whose thread may never end."""
        return self._is_abandoned

    @property
    def stuck_s(self) -> float:
        """Return the seconds without progress of the running tick; 0 up to `stuck_after_s`."""
        idle_s = 0.0 if self._progressed_s is None else time.monotonic() - self._progressed_s
        return idle_s if idle_s > self.stuck_after_s else 0.0

    @property
    def is_dead(self) -> bool:
        """Return whether a tick has been stuck for so long that only a restart helps."""
        return self.stuck_s > DEAD_AFTER * self.stuck_after_s

    async def run(self) -> None:
        """Lead or stand by until cancelled; then release the lease. Raises unexpected errors."""
        tasks = [
            asyncio.create_task(self._keep_lease(), name="lease"),
            asyncio.create_task(self._tick_for_ever(), name="ticks"),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            # They are not cancelled: the running step and tick are completed, which takes a short time.
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
                log.exception("keeping the lease failed; the next step tries again")
            began_s = time.monotonic()
            await self._pause(self._lease_s / 3)
            if self._progressed_s is not None and time.monotonic() - began_s > self._lease_s:
                # This process was stopped, and the tick with it: the tick is not stuck.
                self._progressed_s = time.monotonic()

    def _give_up_if_stuck(self) -> None:
        """Leave the lease to others while the running tick makes no progress; seek it again afterwards."""
        if self.stuck_s == 0.0:
            self._faults.note("ticks", None)
            return
        why = f"its tick has made no progress for {self.stuck_s:.0f} s"
        self._faults.note("ticks", f"{why}: another controller may lead; see the log, restart this one")
        self._election.drop(why, rest=True)

    async def _step(self) -> None:
        async with self._stepping:
            await self._election.step(self._takeover.highest_term)
            await self._follow_lease()
            self._faults.note("terms", self._contested.fault(time.monotonic()))
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
        self._loop.stop()

    async def _begin(self, lease: Lease) -> None:
        try:
            refused = await self._renewing(self._takeover.begin(lease))
        except (Unavailable, LeaseLost, NewerVersion) as error:
            self._refuse_to_lead(str(error))
        except Exception:
            # A bug: another controller's version or data may be free of it.
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
        """Do some work, and renew the lease meanwhile; the next step notices whether it was lost."""
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
                    self._tell_overrun(missed)
                await self._pause(pace.due_s - time.monotonic())

    def _tell_overrun(self, missed: int) -> None:
        """Log the ticks left out, once a minute: a slow machine leaves some out all the time."""
        self._left_out += missed
        now_s = time.monotonic()
        if now_s - self._told_overrun_s >= TELL_OVERRUN_EVERY_S:
            log.warning("ticks overran: %d left out", self._left_out, extra={"event": "overrun"})
            self._left_out, self._told_overrun_s = 0, now_s

    def _pace(self) -> Pace:
        return Pace(
            time.monotonic(), interval_s=self._tick_s, instant_s=clock_phase.CONTROLLER_S, shortest=0.0
        )

    def _progressed(self) -> None:
        self._progressed_s = time.monotonic()

    async def _pause(self, seconds: float) -> None:
        """Sleep; stop early when the loop is to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stopping.wait()

    async def _tick_guarded(self) -> bool:
        """Do one tick; return whether it was the first of some upstreams: others may wait for theirs."""
        lease, resumed = None, False
        try:
            # After a pause, first find out which controller leads, but do not ask an unreachable store often.
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
                        # A resumed upstream has learnt nothing new since its state was read.
                        keep=self._election.certain and not resumed,
                        only=first or None,
                        addresses=await self._addresses(self._loop.cycles),
                        done=self._on_tick,
                        progressed=self._progressed,
                    )
        except LeaseLost as error:
            if lease is self._election.lease:
                self._election.drop(str(error))
            if isinstance(error, HigherTerm):
                self._contested.note(str(error), time.monotonic())
            await self._step()
        except NewerVersion as error:
            async with self.changing:
                self._refuse_to_lead(str(error))
            await self._step()
        except Forbidden:
            pass  # The lease ran out within the tick; the next tick asks for it first.
        except Exception:
            # The loop must survive a bug: the last table holds, and the next tick tries again.
            log.exception("this tick failed; the last tables hold")
        return resumed

    def _permission(self, lease: Lease) -> Callable[[], bool]:
        """Return the check before each write of a tick: the lease is still ours, and no less certain."""
        sure = self._election.certain
        return lambda: self._election.lease is lease and (self._election.certain or not sure)
