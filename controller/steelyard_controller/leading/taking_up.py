"""How a controller begins to lead: it takes up what the store and Memcached know.

I/O; `takeover` decides.
"""

import logging
from collections.abc import Mapping

from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.leading.takeover import takeover
from steelyard_controller.loop import Loop
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.store import Store

log = logging.getLogger("steelyard.controller")


class TakingUp:
    """What one controller takes up, each time that it begins to lead; it knows what it led before."""

    def __init__(self, *, loop: Loop, store: Store, file: Mapping[str, Upstream]) -> None:
        self._loop = loop
        self._store = store
        self._file = file
        self._own: Lease | None = None

    async def highest_term(self) -> int:
        """Return the highest term among the tables that are published."""
        declared = await self._store.declarations()
        tables = await self._loop.published({*self._file, *self._loop.cycles, *declared.known})
        return max((table.term for table in tables.values()), default=0)

    async def begin(self, lease: Lease) -> Mapping[str, str | None]:
        """Make the loop ready to tick; return for each upstream of the file what was refused of it.

        Raises `Unavailable`, `Lost`, `Newer`: then it is not ready.
        """
        stored = await self._store.declarations()
        mine = {name: cycle.declaration for name, cycle in self._loop.cycles.items()}
        begun = takeover(stored, mine if self._knows_better(lease, bool(stored.known)) else None, self._file)
        if begun.changes:
            await self._store.declare(lease, begun.changes)
        for name in [name for name in self._loop.cycles if name not in begun.declarations]:
            self._loop.forget(name)
        published = await self._loop.published(begun.declarations)
        for name, declared in begun.declarations.items():
            self._loop.follow(name, declared)
            await self._resume(name, lease)
            if name in published:
                self._loop.cycles[name].overtake(published[name].generation)
        self._own = lease
        return {name: begun.refused.get(name) for name in self._file}

    def _knows_better(self, lease: Lease, is_filled: bool) -> bool:
        """Tell whether this controller's own declarations are later than the store's."""
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
