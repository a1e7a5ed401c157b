"""The takeover by a new leader, from the declarations and states in the store and the tables in Memcached.

I/O; `takeover_plan` chooses the declarations. The saved states are read in parts, and each part has its
tables before the next one is read, because reading thousands at once takes longer than a lease.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from steelyard_protocol import name_list

from steelyard_controller.declarations import audit
from steelyard_controller.declarations.audit import Author, Entry
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.leader.takeover_plan import TakeoverPlan, plan_takeover
from steelyard_controller.store.interface import Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick import batch
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.cycle_state import decoded_memories
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")

# Upstreams named in one log line.
MOST_SHOWN = 20

# Declarations in one request, with their audit entries: they take a tenth of Redis's timeout.
DECLARATIONS_PER_REQUEST = 250


# Servers whose saved states are read in one request: a megabyte, within Redis's timeout on a slow network.
PEERS_AT_ONCE = 1000


class Takeover:
    """Prepares the tick loop each time this controller begins to lead; it remembers its own last lease."""

    def __init__(
        self,
        *,
        loop: TickLoop,
        store: Store,
        file: Mapping[str, Upstream],
        faults: Faults,
    ) -> None:
        self._loop = loop
        self._store = store
        self._file = file
        self._faults = faults
        self._last_lease: Lease | None = None

    async def highest_term(self) -> int:
        """Return the highest term among the published tables and lists of upstreams."""
        declared = await self._store.declarations()
        return await self._loop.highest_term({*self._file, *self._loop.cycles, *declared.known})

    async def begin(self, lease: Lease) -> Mapping[str, str | None]:
        """Take over the declarations; return why sections of the file were refused, by upstream of the file.

        No upstream has a tick before its `resume`. Raises `Unavailable`, `LeaseLost` and `NewerVersion`; then
        the loop is not ready.
        """
        stored = await self._store.declarations()
        own = {name: cycle.declaration for name, cycle in self._loop.cycles.items()}
        plan = plan_takeover(
            stored, own if self._is_newer_than_store(lease, bool(stored.known)) else None, self._file
        )
        if plan.changes:
            # Two thousand entries take a quarter of a second of CPU.
            entries = await asyncio.to_thread(_file_entries, lease.holder, plan)
            names = list(plan.changes)
            size = DECLARATIONS_PER_REQUEST
            for part in (names[at : at + size] for at in range(0, len(names), size)):
                changes = {name: plan.changes[name] for name in part}
                await self._store.declare(lease, changes, [entries[name] for name in part if name in entries])
        for name in [name for name in self._loop.cycles if name not in plan.declarations]:
            self._loop.forget(name)
        for name, declared in plan.declarations.items():
            self._loop.follow(name, declared)
        self._loop.hold_back(plan.declarations)
        self._last_lease = lease
        return {name: plan.refused.get(name) for name in self._file}

    async def resume(self, lease: Lease) -> list[str]:
        """Resume some of the upstreams without a tick from their saved state; return their names.

        The result is empty when all are resumed, or if the store is unreachable, which is the fault
        `resuming`. Raises `NewerVersion`.
        """
        waiting = [cycle for name, cycle in self._loop.cycles.items() if name in self._loop.unresumed]
        if not waiting:
            return []
        part = {cycle.name: cycle for cycle in next(batch.batches(waiting, PEERS_AT_ONCE))}
        try:
            saved = await self._store.load(list(part))
        except Unavailable as error:
            fault = f"{len(waiting)} upstreams keep their last tables until their saved state is read"
            self._faults.note("resuming", f"{fault}: {error}")
            return []
        self._faults.note("resuming", None)
        published = await self._loop.published.latest(part)
        taken = await asyncio.to_thread(_resume, [(part[name], saved[name]) for name in saved])
        if self._last_lease is not lease:
            return []  # The lease was lost and taken again meanwhile: these states are read again.
        for name, cycle in part.items():
            if name in published:
                cycle.follow_table(published[name])
            for law in cycle.forgotten_laws if name in taken else ():
                log.warning(
                    "%s: the saved memory of %s is damaged or of another edition; the law starts afresh",
                    name, law, extra={"event": "forgotten", "upstream": name},
                )  # fmt: skip
        self._loop.mark_resumed(part)
        if taken:
            log.info(
                "%d of %d upstreams resumed from their saved state: %s",
                len(taken), len(part), name_list.shown(taken, MOST_SHOWN),
                extra={"event": "resumed", "term": lease.term},
            )  # fmt: skip
        return list(part)

    def _is_newer_than_store(self, lease: Lease, is_filled: bool) -> bool:
        """Return whether this controller's own declarations are newer than the store's."""
        if self._last_lease is None:
            return False
        if lease.term == self._last_lease.term + 1:
            # No other controller led in between, even if this takeover fails.
            self._last_lease = lease
            return True
        return lease.store != self._last_lease.store and not is_filled


def _resume(saved: Sequence[tuple[Cycle, SavedState]]) -> list[str]:
    """Let these upstreams go on from their saved states; return the names of those that did."""
    memories = decoded_memories(saved)
    return [
        cycle.name for (cycle, state), its in zip(saved, memories, strict=True) if cycle.resume(state, its)
    ]


def _file_entries(controller: str, plan: TakeoverPlan) -> dict[str, Entry]:
    author, now_ms = Author(name="the configuration file", kind="file", via=controller), time.time() * 1000
    entries = {
        name: audit.entry(author, name, before, plan.declarations[name], at_ms=round(now_ms))
        for name, before in plan.before_file.items()
    }
    return {name: entry for name, entry in entries.items() if entry is not None}
