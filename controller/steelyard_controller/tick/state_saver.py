"""Saves each upstream's memory and history moments in the state store, at their turns.

I/O. A tick waits at most `SAVE_S` for a slow store, however many upstreams
there are. Upstreams that are left out for lack of time come first at the next
tick. So each has its turn, however slow the store is.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

from steelyard_controller import laws
from steelyard_controller.faults import Faults
from steelyard_controller.store.interface import LeaseLost, Rejected, Save, Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick import batch, history_moment, tick_schedule
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome

log = logging.getLogger("steelyard.controller")

T = TypeVar("T")

Turn = tuple[int, Cycle, Outcome]
"""An upstream whose turn it is, with its place among the upstreams, by which turns go."""

# The time that a tick may spend on a slow store, for all upstreams together.
SAVE_S = 0.25

# Servers of the upstreams saved in one request. Two thousand upstreams of ten, of which some 230 are due in a
# tick, then take twelve requests. One has some 0.16 MB: within Redis's timeout, that needs 5 Mbit/s.
PEERS_AT_ONCE = 200

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
        period = tick_schedule.memory_period(total)
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
            if cycle.name in places
            or tick_schedule.is_turn(self._ticks, position, period)
            or tick_schedule.is_turn(
                self._ticks, position, tick_schedule.moment_period(len(outcome.table.peers), total)
            )
        ]
        for group in _groups(due):
            if fault is None and waited_s > SAVE_S:
                fault = f"the store is slow: saving took more than {SAVE_S:g} s"
            if fault is not None:
                left_out += [cycle.name for _, cycle, _ in group]
                continue
            began_s = time.process_time()
            try:
                waited, refused = await self._save(group, lease, total, overdue=places)
                waited_s += waited
            except Unavailable as error:
                refused = {cycle.name: error for _, cycle, _ in group}
            each_s = (time.process_time() - began_s) / len(group)
            for _, cycle, _ in group:
                used_s[cycle.name] = each_s
                why = refused.get(cycle.name)
                if why is None or isinstance(why, Rejected):
                    self._faults_of(cycle.name).note("keeping", None if why is None else str(why))
                else:
                    fault = str(why)
                    failed.append(cycle.name)
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
                ticked = [cycle for cycle in cycles if cycle.outcome is not None]
                for some in batch.batches(ticked, PEERS_AT_ONCE):
                    saves = await asyncio.to_thread(_last_saves, some, lease.term)
                    for error in (await self._store.keep(lease, saves)).values():
                        _warn_of_last(error)
        except (Unavailable, LeaseLost, TimeoutError) as error:
            _warn_of_last(error)

    async def _save(
        self, group: Sequence[Turn], lease: Lease, total: int, *, overdue: Collection[str]
    ) -> tuple[float, Mapping[str, Unavailable]]:
        """Save the memory and the history moment of each upstream, if it is their turn.

        Returns the seconds waited, and why some were not saved.
        """

        def is_due(position: int, cycle: Cycle, apart: int) -> bool:
            return cycle.name in overdue or tick_schedule.is_turn(self._ticks, position, apart)

        def save(position: int, cycle: Cycle, outcome: Outcome, state: SavedState | None) -> Save:
            apart = tick_schedule.moment_period(len(outcome.table.peers), total)
            return Save(
                state=state,
                moment=history_moment.encode(outcome) if is_due(position, cycle, apart) else b"",
                most=max(1, self._moments // apart),
            )

        def saves_of_group() -> dict[str, Save]:
            states = _states([cycle for at, cycle, _ in group if is_due(at, cycle, period)], lease.term)
            return {turn[1].name: save(*turn, states.get(turn[1].name)) for turn in group}

        period = tick_schedule.memory_period(total)
        peers = sum(cycle.size for _, cycle, _ in group)
        saves = await _inline_or_in_thread(peers, saves_of_group)
        began_s = time.monotonic()
        refused = await self._store.keep(lease, saves)
        return time.monotonic() - began_s, refused


def _last_saves(cycles: Sequence[Cycle], term: int) -> dict[str, Save]:
    return {name: Save(state=state) for name, state in _states(cycles, term).items()}


def _states(cycles: Sequence[Cycle], term: int) -> dict[str, SavedState]:
    """Return the states of these upstreams, whose memories are encoded together."""
    encoded = iter(laws.encode_memories([each for cycle in cycles for each in cycle.memories.items()]))
    return {
        cycle.name: cycle.saved(term=term, memories={name: next(encoded) for name in cycle.memories})
        for cycle in cycles
    }


def _warn_of_last(error: Exception) -> None:
    log.warning("the last state could not be saved: %s", error, extra={"event": "not_kept"})


def _groups(due: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Yield the upstreams in their order, in groups of at most `PEERS_AT_ONCE`, or of one upstream."""
    group: list[Turn] = []
    left = PEERS_AT_ONCE
    for turn in due:
        size = turn[1].size
        if group and size > left:
            yield group
            group, left = [], PEERS_AT_ONCE
        group.append(turn)
        left -= size
    if group:
        yield group


async def _inline_or_in_thread(peers: int, work: Callable[[], T]) -> T:
    """Do some work on this many servers, in a thread if it would block the event loop for long."""
    return work() if peers <= INLINE_PEERS else await asyncio.to_thread(work)
