"""The takeover by a new leader: it reads declarations and states from the store, and tables from Memcached.

I/O; `takeover_plan` decides which declarations hold. What was learnt of the upstreams is read in parts,
and each part has its tables before the next one is read: of thousands, all of it takes longer than a lease.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from steelyard_protocol import name_list

from steelyard_controller.declarations import audit
from steelyard_controller.declarations.audit import Author, Entry
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.leader.takeover_plan import TakeoverPlan, plan_takeover
from steelyard_controller.store.interface import Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick import batch
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")

MOST_SHOWN = 20

# So many declarations and who made them are stored in a tenth of what an answer of Redis may take.
PART = 250


class Takeover:
    """Prepares the tick loop each time that this controller begins to lead; it knows its own last lease."""

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
        self._own: Lease | None = None

    async def highest_term(self) -> int:
        """Return the highest term among the published tables and lists of upstreams."""
        declared = await self._store.declarations()
        return await self._loop.highest_term({*self._file, *self._loop.cycles, *declared.known})

    async def begin(self, lease: Lease) -> Mapping[str, str | None]:
        """Take over what is declared; return by upstream of the file why its section was refused.

        An upstream has no tick before `resume` has named it. Raises `Unavailable`, `LeaseLost`,
        `NewerVersion`: then the loop is not ready.
        """
        stored = await self._store.declarations()
        mine = {name: cycle.declaration for name, cycle in self._loop.cycles.items()}
        begun = plan_takeover(
            stored, mine if self._knows_better(lease, bool(stored.known)) else None, self._file
        )
        if begun.changes:
            # Two thousand entries take a quarter of a second of CPU.
            entries = await asyncio.to_thread(_of_file, lease.holder, begun)
            names = list(begun.changes)
            for part in (names[at : at + PART] for at in range(0, len(names), PART)):
                changes = {name: begun.changes[name] for name in part}
                await self._store.declare(lease, changes, [entries[name] for name in part if name in entries])
        for name in [name for name in self._loop.cycles if name not in begun.declarations]:
            self._loop.forget(name)
        for name, declared in begun.declarations.items():
            self._loop.follow(name, declared)
        self._loop.hold_back(begun.declarations)
        self._own = lease
        return {name: begun.refused.get(name) for name in self._file}

    async def resume(self, lease: Lease) -> list[str]:
        """Go on from what was learnt of some of the upstreams that have had no tick; return their names.

        None: all have been resumed, or the store is away, which is a fault named `resuming`. Raises
        `NewerVersion`.
        """
        waiting = [cycle for name, cycle in self._loop.cycles.items() if name in self._loop.unresumed]
        if not waiting:
            return []
        some = {cycle.name: cycle for cycle in next(batch.batches(waiting))}
        try:
            saved = await self._store.load(list(some))
        except Unavailable as error:
            fault = f"{len(waiting)} upstreams keep their last tables until what was learnt of them is read"
            self._faults.note("resuming", f"{fault}: {error}")
            return []
        self._faults.note("resuming", None)
        published = await self._loop.published.latest(some)
        taken = await asyncio.to_thread(lambda: [name for name in saved if some[name].resume(saved[name])])
        if self._own is not lease:
            return []  # It was lost meanwhile and taken again: they are read again.
        for name, cycle in some.items():
            if name in published:
                cycle.follow_table(published[name])
            for law in cycle.forgotten_laws if name in taken else ():
                log.warning(
                    "%s: what %s had learnt is of another edition of it or damaged; it starts anew",
                    name, law, extra={"event": "forgotten", "upstream": name},
                )  # fmt: skip
        self._loop.mark_resumed(some)
        if taken:
            log.info(
                "%d of %d upstreams go on from what was learnt: %s",
                len(taken), len(some), name_list.shown(taken, MOST_SHOWN),
                extra={"event": "resumed", "term": lease.term},
            )  # fmt: skip
        return list(some)

    def _knows_better(self, lease: Lease, is_filled: bool) -> bool:
        """Tell whether this controller's own declarations are newer than the store's."""
        if self._own is None:
            return False
        if lease.term == self._own.term + 1:
            # Nobody led in between, even if beginning fails this time.
            self._own = lease
            return True
        return lease.store != self._own.store and not is_filled


def _of_file(controller: str, begun: TakeoverPlan) -> dict[str, Entry]:
    author, now_ms = Author(name="the configuration file", kind="file", via=controller), time.time() * 1000
    return {
        name: audit.entry(author, name, before, begun.declarations[name], at_ms=round(now_ms))
        for name, before in begun.before_file.items()
    }
