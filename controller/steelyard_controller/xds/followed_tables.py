"""The newest weight tables of the upstreams that Envoys ask for, and their encoded endpoints. I/O only.

The controller that leads has them from its own ticks, any other from Memcached, as nginx has: so every
controller answers, and one that takes over serves what it served before. Only a newer table replaces one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass

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

# As nginx: the leader's tables are there by then.
FETCH_S = 0.25

# For so long weights that are near those that were sent are left.
NEAR_ENOUGH_S = 10.0


@dataclass
class FollowedTables:
    """Follows the upstreams that `wanted` names; `changed` is set when there is news, and then replaced."""

    service: Service
    _: KW_ONLY
    memcached: str
    keys: Keyring
    wanted: Callable[[], Collection[str]]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.tables: dict[str, WeightTable] = {}
        self.assignments: dict[str, Assignment] = {}
        self.absent: set[str] = set()
        """Names that are asked for, and that nobody declared."""
        self.changed = asyncio.Event()
        self._pool = MemcachedPool(self.memcached)
        self._published = PublishedTables(self._pool, keys=self.keys, refused=lambda *_: None)
        self._encoded: dict[str, tuple[WeightTable, float]] = {}
        self.look = asyncio.Event()
        """Set by whoever asks for something that was not asked for."""
        self.service.after_tick.append(self.look.set)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    async def run(self) -> None:
        """Follow the tables until cancelled."""
        pace = Pace(time.monotonic(), interval_s=self.service.tick_s, instant_s=FETCH_S)
        while True:
            is_due = time.monotonic() >= pace.due_s
            if is_due:
                pace.next(time.monotonic(), time.time())
            self.look.clear()
            try:
                await self._refresh(is_due)
            except Exception:
                # Envoys keep what they have; the next look tries again.
                log.exception("weight tables could not be read for Envoy")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, pace.due_s - time.monotonic())):
                    await self.look.wait()

    async def _refresh(self, is_due: bool) -> None:
        wanted, views, role = set(self.wanted()), self.service.views, self.service.role
        outcomes = {name: views[name].outcome for name in wanted if name in views}
        newest = {name: outcome.table for name, outcome in outcomes.items() if outcome is not None}
        absent = {
            name for name in wanted if not wire.is_name(name) or (role == "leader" and name not in views)
        }
        asked = wanted - newest.keys() - absent
        others = [name for name in asked if is_due or name not in self.tables.keys() | self.absent]
        if others:
            newest |= await self._published.latest(others)
            # Where nobody is known to lead, or Memcached is away, nobody knows.
            is_known = role == "standby" and not all(self._pool.faults.values())
            absent |= {name for name in others if is_known and name not in newest}
        before, self.absent = self.absent, (absent | (self.absent & wanted)) - newest.keys()
        # Who has what was declared keeps it; nobody else is to get it.
        for name in (self.tables.keys() - wanted) | self.absent:
            for of_name in (self.tables, self.assignments, self._encoded):
                of_name.pop(name, None)
        if await self._take(newest) or self.absent != before:
            self.changed.set()
            self.changed = asyncio.Event()

    async def _take(self, newest: dict[str, WeightTable]) -> bool:
        """Take over what is newer; tell whether Envoy may have to know."""
        newer = {
            name: table
            for name, table in newest.items()
            if name not in self.tables or self.tables[name].order < table.order
        }
        self.tables |= newer
        due = {name: table for name, table in newer.items() if self._is_due(name, table)}
        if not due:
            return False
        made = await asyncio.to_thread(lambda: {name: assignments.assignment(due[name]) for name in due})
        self._encoded |= {name: (table, self.clock()) for name, table in due.items()}
        self.assignments |= made
        return True

    def _is_due(self, name: str, table: WeightTable) -> bool:
        encoded, at_s = self._encoded.get(name, (None, 0.0))
        return (
            encoded is None or self.clock() - at_s >= NEAR_ENOUGH_S or not assignments.is_near(encoded, table)
        )
