"""The newest weight tables of the upstreams that Envoys ask for, and their encoded endpoints. I/O only.

The leader has them from its own ticks; other controllers read them from Memcached, as nginx does. So every
controller answers, and a new leader serves the same endpoints as before. Only a newer table replaces one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet

from steelyard_protocol import wire
from steelyard_protocol.clock_phase import Pace
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_tables import PublishedTables
from steelyard_controller.service import Service
from steelyard_controller.xds import assignments
from steelyard_controller.xds.assignments import Assignment

log = logging.getLogger("steelyard.controller")

# The same instant as nginx's: the leader has published its tables by then.
FETCH_S = 0.25

# Weights near the last encoded ones wait for this long.
NEAR_ENOUGH_S = 10.0


class FollowedTables:
    """Follows the upstreams named by `wanted`, until `close`."""

    def __init__(
        self,
        service: Service,
        *,
        memcached: str,
        keys: Keyring,
        wanted: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._wanted = wanted
        self._clock = clock
        self._tables: dict[str, WeightTable] = {}
        self._assignments: dict[str, Assignment] = {}
        self._absent: set[str] = set()
        self._changed = asyncio.Event()
        self._pool = MemcachedPool(memcached)
        self._published = PublishedTables(self._pool, keys=keys, refused=lambda *_: None)
        self._encoded: dict[str, tuple[WeightTable, float]] = {}
        self._wake = asyncio.Event()
        service.after_tick(self._wake.set)

    @property
    def tables(self) -> Mapping[str, WeightTable]:
        """Return the newest table of each wanted upstream."""
        return self._tables

    @property
    def assignments(self) -> Mapping[str, Assignment]:
        """Return the encoded endpoints of each wanted upstream."""
        return self._assignments

    @property
    def absent(self) -> AbstractSet[str]:
        """Return the wanted names that are not declared."""
        return self._absent

    @property
    def changed(self) -> asyncio.Event:
        """Return the event for the next news: it is set once, and then replaced."""
        return self._changed

    def refresh_soon(self) -> None:
        """Read the tables at once: the wanted names have changed."""
        self._wake.set()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def run(self) -> None:
        """Follow the tables until cancelled."""
        pace = Pace(time.monotonic(), interval_s=self._service.tick_s, instant_s=FETCH_S)
        while True:
            is_due = time.monotonic() >= pace.due_s
            if is_due:
                pace.next(time.monotonic(), time.time())
            self._wake.clear()
            try:
                await self._refresh(is_due)
            except Exception:
                # Envoys keep their endpoints; the next turn tries again.
                log.exception("weight tables could not be read for Envoy")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, pace.due_s - time.monotonic())):
                    await self._wake.wait()

    async def _refresh(self, is_due: bool) -> None:
        wanted, views, role = set(self._wanted()), self._service.views, self._service.role
        outcomes = {name: views[name].outcome for name in wanted if name in views}
        newest = {name: outcome.table for name, outcome in outcomes.items() if outcome is not None}
        absent = {
            name for name in wanted if not wire.is_name(name) or (role == "leader" and name not in views)
        }
        unserved = wanted - newest.keys() - absent
        others = [name for name in unserved if is_due or name not in self._tables.keys() | self._absent]
        if others:
            newest |= await self._published.latest(others)
            # Without a known leader, or without Memcached, a missing table does not mean an undeclared name.
            is_known = role == "standby" and not all(self._pool.faults.values())
            absent |= {name for name in others if is_known and name not in newest}
        before, self._absent = self._absent, (absent | (self._absent & wanted)) - newest.keys()
        # An Envoy that has the endpoints of an undeclared upstream keeps them; no other Envoy gets them.
        for name in (self._tables.keys() - wanted) | self._absent:
            for of_name in (self._tables, self._assignments, self._encoded):
                of_name.pop(name, None)
        if await self._take(newest) or self._absent != before:
            self._changed.set()
            self._changed = asyncio.Event()

    async def _take(self, newest: dict[str, WeightTable]) -> bool:
        """Take over newer tables; return whether any of them concerns Envoy."""
        newer = {
            name: table
            for name, table in newest.items()
            if name not in self._tables or self._tables[name].order < table.order
        }
        self._tables |= newer
        due = {name: table for name, table in newer.items() if self._is_due(name, table)}
        if not due:
            return False
        new_assignments = await asyncio.to_thread(_encoded, due, dict(self._assignments))
        self._encoded |= {name: (table, self._clock()) for name, table in due.items()}
        self._assignments |= new_assignments
        return True

    def _is_due(self, name: str, table: WeightTable) -> bool:
        encoded, at_s = self._encoded.get(name, (None, 0.0))
        return (
            encoded is None
            or self._clock() - at_s >= NEAR_ENOUGH_S
            or not assignments.differs_little(encoded, table)
        )


def _encoded(tables: Mapping[str, WeightTable], before: Mapping[str, Assignment]) -> dict[str, Assignment]:
    """Return the endpoints of these tables, with the farewell for an Envoy that has the previous ones."""
    made = {name: assignments.assignment(table) for name, table in tables.items()}
    for name, each in made.items():
        leaving = each.out - before[name].out if name in before else each.out
        if leaving:
            each.farewell(leaving)
    return made
