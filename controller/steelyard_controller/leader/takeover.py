"""The takeover by a new leader: it reads declarations and states from the store, and tables from Memcached.

I/O; `takeover_plan` decides which declarations hold.
"""

import logging
from collections.abc import Mapping

from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.leader.takeover_plan import plan_takeover
from steelyard_controller.store.interface import Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")


class Takeover:
    """Prepares the tick loop each time that this controller begins to lead; it knows its own last lease."""

    def __init__(self, *, loop: TickLoop, store: Store, file: Mapping[str, Upstream]) -> None:
        self._loop = loop
        self._store = store
        self._file = file
        self._own: Lease | None = None

    async def highest_term(self) -> int:
        """Return the highest term among the published tables and lists of upstreams."""
        declared = await self._store.declarations()
        tables = await self._loop.published({*self._file, *self._loop.cycles, *declared.known})
        return max(await self._loop.term_of_list(), *(table.term for table in tables.values()), 0)

    async def begin(self, lease: Lease) -> Mapping[str, str | None]:
        """Prepare the loop; return for each upstream of the file why its section was refused, or None.

        Raises `Unavailable`, `LeaseLost`, `NewerVersion`: then the loop is not ready.
        """
        stored = await self._store.declarations()
        mine = {name: cycle.declaration for name, cycle in self._loop.cycles.items()}
        begun = plan_takeover(
            stored, mine if self._knows_better(lease, bool(stored.known)) else None, self._file
        )
        if begun.changes:
            await self._store.declare(lease, begun.changes)
        for name in [name for name in self._loop.cycles if name not in begun.declarations]:
            self._loop.forget(name)
        published = await self._loop.published(begun.declarations)
        for name, declared in begun.declarations.items():
            self._loop.follow(name, declared)
            await self._resume(name, lease)
            if name in published:
                self._loop.cycles[name].follow_table(published[name])
        self._own = lease
        return {name: begun.refused.get(name) for name in self._file}

    def _knows_better(self, lease: Lease, is_filled: bool) -> bool:
        """Tell whether this controller's own declarations are newer than the store's."""
        if self._own is None:
            return False
        if lease.term == self._own.term + 1:
            # Nobody led in between, even if beginning fails this time.
            self._own = lease
            return True
        return lease.store != self._own.store and not is_filled

    async def _resume(self, name: str, lease: Lease) -> None:
        saved = await self._store.load(name)
        cycle = self._loop.cycles[name]
        if saved is not None and cycle.resume(saved):
            log.info(
                "%s: goes on from what was learnt by %s", name, ", ".join(cycle.remembered) or "nobody",
                extra={"event": "resumed", "upstream": name, "term": lease.term},
            )  # fmt: skip
            for law in cycle.forgotten:
                log.warning(
                    "%s: what %s had learnt is of another edition of it or damaged; it starts anew",
                    name, law, extra={"event": "forgotten", "upstream": name},
                )  # fmt: skip
