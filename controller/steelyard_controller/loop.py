"""The ticks: for every upstream read, decide, publish, remember; then wait for the next one.

I/O around pure cycles. The order within a tick is fixed: everything is read
at once, then each upstream decides on that alone and publishes, then what was
learnt is kept. Each side may fail by itself: with Memcached away the laws
still step (and learn nothing), with the store away the loop goes on from
memory. Neither is waited for longer than a fraction of a second a tick,
however many upstreams there are. Deciding is done in a thread, so that a large
upstream keeps neither the lease nor the API waiting.

Before anything is published the tables that are there are looked at: one of a
higher term ends this loop.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from steelyard_agent.wire import Refused

from steelyard_controller import turns
from steelyard_controller.cycle import Cycle
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.faults import Faults
from steelyard_controller.outcome import Outcome
from steelyard_controller.pipeline import memcached, weight_table
from steelyard_controller.pipeline.memcached import Memcached
from steelyard_controller.pipeline.published import Published, Tables
from steelyard_controller.pipeline.weight_table import WeightTable
from steelyard_controller.state import moment
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.store import Lost, Rejected, Store, Unavailable

log = logging.getLogger("steelyard.controller")

# What a tick waits for a slow store, all upstreams together; who is left out has another turn soon.
KEEPING_S = 0.25

# At the end there is no next tick; but whoever ended this process does not wait for ever.
LAST_KEEPING_S = 2.0


class Loop:
    """Ticks of the cycles under one lease."""

    def __init__(
        self,
        *,
        pipeline: Memcached,
        store: Store,
        tick_s: float,
        history_s: float,
        key: bytes | None,
        faults: Faults,
    ) -> None:
        self.cycles: dict[str, Cycle] = {}
        self._pipeline = pipeline
        self._store = store
        self._tick_s = tick_s
        self._moments = max(1, round(history_s / tick_s))
        self._key = key
        self._published = Published(pipeline, key=key, refused=self._refuse)
        self._faults = faults
        self._of_upstream: dict[str, Faults] = {}
        self._ticks = 0
        self._refused: dict[str, Refused] = {}
        self._forgotten = 0

    async def tick(
        self,
        now_s: float,
        *,
        lease: Lease,
        certain: Callable[[], bool],
        addresses: Mapping[str, Mapping[str, str]],
        keep: bool = True,
        done: Callable[[Cycle], Awaitable[None]] | None = None,
    ) -> None:
        """Do one tick of every upstream.

        `certain` tells whether this controller may write under the lease; where it says no, the tick ends
        with `Forbidden`. Raises `Lost` when the lease is another's. `addresses` has the resolved peers of
        each upstream; `keep` tells whether the store is there to keep what is learnt; `done` is awaited
        when an upstream has its outcome.
        """
        self._ticks += 1
        cycles = list(self.cycles.values())
        skip: set[str] = set()
        found = await self._look([key for cycle in cycles for key in cycle.keys()], skip)  # noqa: SIM118
        tables = await self._published.look([cycle.name for cycle in cycles], skip)
        self._note_servers()
        await self._refuse_higher(tables, lease)
        done_now: list[tuple[Cycle, Outcome, float]] = []
        for cycle in cycles:
            began_s = time.process_time()
            outcome, lines = await asyncio.to_thread(
                cycle.advance,
                found,
                now_s=now_s,
                term=lease.term,
                issued_at_ms=time.time_ns() // 1_000_000,
                addresses=addresses.get(cycle.name, {}),
            )
            if self._is_gone(cycle):
                continue
            for line in lines:
                log.warning("%s: %s", cycle.name, line, extra={"event": "refused", "upstream": cycle.name})
            await self._publish(outcome.table, tables, certain, skip)
            done_now.append((cycle, outcome, time.process_time() - began_s))
        kept_s = await self._keep([(cycle, outcome) for cycle, outcome, _ in done_now], lease) if keep else {}
        for cycle, outcome, used_s in done_now:
            cycle.used.add(used_s + kept_s.get(cycle.name, 0.0))
            if not self._is_gone(cycle):
                faults = (*self._faults.lines(), *self.faults_of(cycle.name).lines())
                cycle.outcome = replace(outcome, degraded=faults)
                if done is not None:
                    await done(cycle)

    async def published(self, upstreams: Iterable[str]) -> dict[str, WeightTable]:
        """Return the latest table that Memcached holds of each upstream, where there is one."""
        return await self._published.latest(upstreams)

    async def save_all(self, lease: Lease) -> None:
        """Keep what was learnt of every upstream, for whoever leads next."""
        try:
            async with asyncio.timeout(LAST_KEEPING_S):
                for cycle in list(self.cycles.values()):
                    if cycle.outcome is not None:
                        saved = await asyncio.to_thread(cycle.saved, term=lease.term)
                        await self._store.save(lease, cycle.name, saved)
        except (Unavailable, Lost, TimeoutError) as error:
            log.warning("what was learnt at last was not kept: %s", error, extra={"event": "not_kept"})

    def follow(self, upstream: str, declaration: Declaration) -> None:
        """Go by another declaration of an upstream from the next tick on, or begin with one."""
        if upstream in self.cycles:
            self.cycles[upstream].declaration = declaration
        else:
            self.add(upstream, declaration)

    def add(self, upstream: str, declaration: Declaration) -> None:
        """Begin with an upstream, which has learnt nothing yet."""
        cycle = Cycle(upstream, declaration, tick_s=self._tick_s, key=self._key)
        # It may have been there before, in this very term: its tables must not go back.
        cycle.overtake(self._forgotten)
        if upstream in self._refused:
            cycle.refuse(self._refused.pop(upstream))
        self.cycles[upstream] = cycle

    def forget(self, upstream: str) -> None:
        """Drop an upstream; what was published of it fades by its time to live."""
        cycle = self.cycles.pop(upstream, None)
        if cycle is not None:
            self._forgotten = max(self._forgotten, cycle.generation)
        self._published.forget(upstream)
        self._of_upstream.pop(upstream, None)

    def faults_of(self, upstream: str) -> Faults:
        """Return the faults of one upstream."""
        return self._of_upstream.setdefault(upstream, Faults(upstream))

    def _is_gone(self, cycle: Cycle) -> bool:
        """Tell whether the upstream was deleted meanwhile."""
        return self.cycles.get(cycle.name) is not cycle

    async def _look(self, keys: list[str], skip: set[str]) -> dict[str, bytes] | None:
        try:
            return await self._pipeline.get_many(keys, skip) if keys else {}
        except memcached.Unavailable:
            return None

    async def _refuse_higher(self, tables: Tables, lease: Lease) -> None:
        """Raise `Lost` when one of these tables is of a higher term: somebody else has led since."""
        found = await self._published.highest_term(tables)
        if found > lease.term:
            raise Lost(f"Memcached holds a table of term {found}")

    def _refuse(self, upstream: str, refused: Refused) -> None:
        """Count a published table that is not believed, with its upstream or until that begins."""
        if upstream in self.cycles:
            self.cycles[upstream].refuse(refused)
        else:
            self._refused[upstream] = refused

    async def _publish(
        self, table: WeightTable, tables: Tables, certain: Callable[[], bool], skip: set[str]
    ) -> None:
        faults = self.faults_of(table.upstream)
        try:
            await self._published.publish(table, tables, certain=certain, skip=skip)
        except (memcached.Unavailable, weight_table.TableTooLarge) as error:
            faults.note("publishing", str(error))
        else:
            faults.note("publishing", None)
        finally:
            self._note_servers()

    async def _keep(self, outcomes: Sequence[tuple[Cycle, Outcome]], lease: Lease) -> dict[str, float]:
        """Keep what is due, and return the CPU seconds that it took, by upstream."""
        total = sum(len(outcome.table.peers) for _, outcome in outcomes)
        used_s: dict[str, float] = {}
        waited_s = 0.0
        try:
            for position, (cycle, outcome) in enumerate(outcomes):
                if waited_s > KEEPING_S:
                    raise Unavailable(f"it took more than {KEEPING_S:g} s to keep what was learnt")
                began_s = time.process_time()
                waited_s += await self._keep_one(cycle, outcome, lease, position, total)
                used_s[cycle.name] = time.process_time() - began_s
        except Unavailable as error:
            self._faults.note("state", str(error))
        else:
            self._faults.note("state", None)
        return used_s

    async def _keep_one(
        self, cycle: Cycle, outcome: Outcome, lease: Lease, position: int, total: int
    ) -> float:
        """Keep an upstream's memory and moment, if it is their turn; return the seconds of waiting."""
        apart = turns.moment_period(len(outcome.table.peers), total)
        faults, waited_s = self.faults_of(cycle.name), 0.0
        try:
            if turns.is_turn(self._ticks, position, turns.memory_period(total)):
                saved = await asyncio.to_thread(cycle.saved, term=lease.term)
                began_s = time.monotonic()
                await self._store.save(lease, cycle.name, saved)
                waited_s += time.monotonic() - began_s
            if turns.is_turn(self._ticks, position, apart):
                text = await asyncio.to_thread(moment.encode, outcome)
                began_s = time.monotonic()
                await self._store.remember(lease, cycle.name, text, keep=max(1, self._moments // apart))
                waited_s += time.monotonic() - began_s
        except Rejected as error:
            faults.note("keeping", str(error))
        else:
            faults.note("keeping", None)
        return waited_s

    def _note_servers(self) -> None:
        for server, fault in self._pipeline.faults.items():
            self._faults.note(f"memcached {server}", fault)
