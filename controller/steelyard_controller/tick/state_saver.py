"""Saves each upstream's memory and history moments in the state store, at their turns.

I/O. A tick waits at most `SAVE_S` for a slow store, however many upstreams
there are. Upstreams that are left out for lack of time come first at the next
tick. So each has its turn, however slow the store is.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from steelyard_controller.faults import Faults
from steelyard_controller.store.interface import LeaseLost, Rejected, Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick import history_moment, tick_schedule
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome

log = logging.getLogger("steelyard.controller")

T = TypeVar("T")

# The time that a tick may spend on a slow store, for all upstreams together.
SAVE_S = 0.25

# Upstreams saved at the same time. With 2,000 upstreams, some 230 are due in a tick. Over a network, saving
# them one after the other would take longer than `SAVE_S`.
PARALLEL_SAVES = 8

# Up to this many servers, the work takes less time than a change to another thread and back.
INLINE_PEERS = 100

# The last save of the process has no next turn, but a shutdown must not take long either.
LAST_SAVE_S = 2.0


class StateSaver:
    """Saves the outcomes of ticks; the history of an upstream has `moments` of them."""

    def __init__(
        self,
        store: Store,
        *,
        moments: int,
        faults: Faults,
        faults_of: Callable[[str], Faults],
    ) -> None:
        self._store = store
        self._moments = moments
        self._faults = faults
        self._faults_of = faults_of
        self._ticks = 0
        self._left_out: list[str] = []

    async def save_due(self, outcomes: Sequence[tuple[Cycle, Outcome]], lease: Lease) -> dict[str, float]:
        """Save the outcomes of a tick whose turn it is; return the CPU seconds spent, by upstream.

        Raises `LeaseLost`. If the store is unreachable or slow, that is the fault `saving`.
        """
        self._ticks += 1
        total = tick_schedule.in_peers(len(outcome.table.peers) for _, outcome in outcomes)
        used_s: dict[str, float] = {}
        waited_s, fault = 0.0, None
        left_out: list[str] = []
        failed: list[str] = []
        # The sort is stable: upstreams left out last time come first, the longest left out before the others.
        places = {name: place for place, name in enumerate(self._left_out)}
        turns = sorted(enumerate(outcomes), key=lambda turn: places.get(turn[1][0].name, len(places)))
        due = [
            (position, cycle, outcome)
            for position, (cycle, outcome) in turns
            if cycle.name in places or self._is_turn(position, outcome, total)
        ]
        for group in (due[at : at + PARALLEL_SAVES] for at in range(0, len(due), PARALLEL_SAVES)):
            if fault is None and waited_s > SAVE_S:
                fault = f"the store is slow: saving took more than {SAVE_S:g} s"
            if fault is not None:
                left_out += [cycle.name for _, cycle, _ in group]
                continue
            began_s = time.process_time()
            results = await asyncio.gather(
                *(
                    self._save(cycle, outcome, lease, position, total, overdue=cycle.name in places)
                    for position, cycle, outcome in group
                ),
                return_exceptions=True,
            )
            waited_s += max(result for result in (0.0, *results) if isinstance(result, float))
            for (_, cycle, _), result in zip(group, results, strict=True):
                used_s[cycle.name] = (time.process_time() - began_s) / len(group)
                if isinstance(result, Unavailable):
                    fault = str(result)
                    failed.append(cycle.name)
                elif isinstance(result, BaseException):
                    raise result
        # An upstream whose save fails must not keep the others from their turn, so it goes to the end.
        self._left_out = [*left_out, *failed]
        # The election reports an unreachable store: it asks the store all the time.
        self._faults.note("saving", None if "state" in self._faults.now else fault)
        return used_s

    def rest(self) -> None:
        """Save nothing at this tick. If the store is unreachable, the election reports it."""
        if "state" in self._faults.now:
            self._faults.drop("saving")

    async def save_last(self, cycles: Sequence[Cycle], lease: Lease) -> None:
        """Save the memory of every upstream for the next leader."""
        try:
            async with asyncio.timeout(LAST_SAVE_S):
                for cycle in cycles:
                    if cycle.outcome is not None:
                        saved = await asyncio.to_thread(cycle.saved, term=lease.term)
                        await self._store.keep(lease, cycle.name, saved)
        except (Unavailable, LeaseLost, TimeoutError) as error:
            log.warning("the last state could not be saved: %s", error, extra={"event": "not_kept"})

    def _is_turn(self, position: int, outcome: Outcome, total: int) -> bool:
        periods = (
            tick_schedule.memory_period(total), tick_schedule.moment_period(len(outcome.table.peers), total),
        )  # fmt: skip
        return any(tick_schedule.is_turn(self._ticks, position, period) for period in periods)

    async def _save(
        self, cycle: Cycle, outcome: Outcome, lease: Lease, position: int, total: int, *, overdue: bool
    ) -> float:
        """Save an upstream's memory and history moment, if it is their turn; return the seconds waited."""
        apart = tick_schedule.moment_period(len(outcome.table.peers), total)
        faults, saved, moment = self._faults_of(cycle.name), None, b""
        if overdue or tick_schedule.is_turn(self._ticks, position, tick_schedule.memory_period(total)):
            saved = await _inline_or_in_thread(cycle.size, lambda: cycle.saved(term=lease.term))
        if overdue or tick_schedule.is_turn(self._ticks, position, apart):
            moment = await _inline_or_in_thread(cycle.size, lambda: history_moment.encode(outcome))
        began_s = time.monotonic()
        try:
            most = max(1, self._moments // apart)
            await self._store.keep(lease, cycle.name, saved, moment, most=most)
        except Rejected as error:
            faults.note("keeping", str(error))
        else:
            faults.note("keeping", None)
        return time.monotonic() - began_s


async def _inline_or_in_thread(peers: int, work: Callable[[], T]) -> T:
    """Do some work on this many servers, in a thread if it would block the event loop for long."""
    return work() if peers <= INLINE_PEERS else await asyncio.to_thread(work)
