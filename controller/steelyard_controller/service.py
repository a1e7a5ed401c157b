"""The controller: leadership, the loop, what is declared, and who listens. All that the API sees.

I/O by its parts. Every change goes through `change`: one at a time, kept by
the store under the lease before anything follows it, so that what was
answered with success outlives this process, and what was not changed nothing.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from steelyard_controller import turns
from steelyard_controller.cycle import Cycle
from steelyard_controller.declared import declaration as declarations
from steelyard_controller.declared.declaration import Declaration, Unknown
from steelyard_controller.declared.publishable import refuse_unpublishable
from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.events import Event, Listeners
from steelyard_controller.faults import Faults
from steelyard_controller.leading.leadership import Leadership
from steelyard_controller.leading.reign import Addresses, Reign
from steelyard_controller.leading.taking_up import TakingUp
from steelyard_controller.loop import Loop
from steelyard_controller.overview import overview
from steelyard_controller.state import moment
from steelyard_controller.state.lease import Lease
from steelyard_controller.state.store import Lost, Store, Unavailable

log = logging.getLogger("steelyard.controller")

Role = Literal["leader", "standby", "waiting"]
"""`waiting`: neither leads nor knows who does, because the store is away or the lease just ended."""

# The most that one answer about the past holds; a plot has fewer pixels.
MOST_MOMENTS = 2000


async def no_names(_: Mapping[str, Cycle]) -> Mapping[str, Mapping[str, str]]:
    """Return no addresses: every peer is declared as IP:port."""
    return {}


class NotLeading(Exception):
    """Another controller leads, or none; only the leader can do this."""


class NotKept(Exception):
    """The store did not keep the change, so nothing has changed; the message says why."""


class Conflict(Exception):
    """The declaration has another revision than the one that was to be changed."""


class Service:
    """One controller."""

    def __init__(
        self,
        *,
        id: str,
        loop: Loop,
        leadership: Leadership,
        store: Store,
        faults: Faults,
        file: Mapping[str, Upstream],
        tick_s: float,
        lease_s: float,
        version: str,
        addresses: Addresses = no_names,
    ) -> None:
        self.id = id
        self.tick_s = tick_s
        self.version = version
        self.started_s = time.monotonic()
        self.listeners = Listeners()
        self._loop = loop
        self._leadership = leadership
        self._store = store
        self._faults = faults
        self._file = file
        self._reign = Reign(
            loop=loop,
            leadership=leadership,
            taking_up=TakingUp(loop=loop, store=store, file=file),
            faults=faults,
            tick_s=tick_s,
            lease_s=lease_s,
            addresses=addresses,
            on_tick=self._tell_tick,
            on_step=self._seen_who_leads,
        )
        self._doubtful: set[str] = set()
        self._told: tuple[Role, Lease | None] | None = None

    @property
    def views(self) -> Mapping[str, Cycle]:
        """Return the upstreams by name: declaration, last outcome, overruns, CPU seconds of the last tick."""
        return self._loop.cycles

    @property
    def role(self) -> Role:
        """Return what this controller is now."""
        if self._reign.led is not None:
            return "leader"
        return "standby" if self._leadership.seen is not None else "waiting"

    @property
    def term(self) -> int | None:
        """Return the term under which this controller leads."""
        return None if self._reign.led is None else self._reign.led.term

    @property
    def leader(self) -> Lease | None:
        """Return who leads, as last seen."""
        return self._leadership.seen

    @property
    def volatile(self) -> bool:
        """Tell whether nothing outlives this process."""
        return self._store.volatile

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return a line for each part that does not work."""
        return self._faults.lines()

    def document(self) -> dict[str, object]:
        """Return what `GET /v1/service` answers."""
        leader = self.leader
        return {
            "id": self.id,
            "role": self.role,
            "term": self.term,
            "leader": None if leader is None else {"id": leader.holder, "url": leader.url},
            "version": self.version,
            "tick_s": self.tick_s,
            "state": "memory" if self.volatile else "redis",
            "degraded": list(self.degraded),
            "uptime_s": round(time.monotonic() - self.started_s, 1),
        }

    async def change(
        self,
        name: str,
        edit: Callable[[Upstream | None], Upstream | None],
        *,
        revision: int | None = None,
        by: str = "",
    ) -> Declaration | None:
        """Change what is declared of an upstream, and return it as it is kept; None: it is gone.

        `edit` gets the upstream as declared, None where there is none, and returns what it is to be, None
        to delete it. Nothing has changed when this raises: what `edit` raises, `Conflict` where the
        declaration is not of `revision`, `NotLeading`, `NotKept`, ValueError for what cannot be published.
        `by` says in the log who asked for it.
        """
        # Shielded: a client that goes away must not leave the store and this memory at odds.
        return await asyncio.shield(self._changed(name, edit, revision, by))

    async def _changed(
        self, name: str, edit: Callable[[Upstream | None], Upstream | None], revision: int | None, by: str
    ) -> Declaration | None:
        async with self._reign.changing:
            lease = self._reign.led
            if lease is None:
                raise NotLeading
            cycle = self.views.get(name)
            before = None if cycle is None else cycle.declaration
            if revision is not None and revision != (before.revision if before else 0):
                has = f"has revision {before.revision}" if before else "does not exist"
                raise Conflict(f"upstream {name} {has}, not revision {revision}: read it again")
            upstream = edit(before.upstream if before else None)
            if before is not None and upstream == before.upstream:
                return before
            after = None
            if upstream is not None:
                refuse_unpublishable(name, upstream)
                after = Declaration(upstream=upstream) if before is None else before.changed(upstream)
            elif before is None:
                raise Unknown(f"there is no upstream {name}")
            elif name in self._file:
                raise ValueError(
                    f"{name} stands in the configuration file, which would bring it back at the next start: "
                    "take it out there, start again, and delete it then"
                )
            await self._keep(lease, name, after)
            if after is None:
                self._loop.forget(name)
            else:
                self._loop.follow(name, after)
            said = declarations.differences(before.upstream if before else None, upstream)
            log.info("%s: %s", name, said, extra={"event": "declared", "upstream": name, "by": by})
            self._tell_change(name, after, said)
            return after

    async def history(self, name: str, *, seconds: float, step_s: float) -> list[bytes]:
        """Return moments as JSON, oldest first; raise `NotKept` while the store is away."""
        try:
            found = await self._store.history(name, seconds=seconds, most=MOST_MOMENTS)
        except Unavailable as error:
            raise NotKept(str(error)) from None
        return moment.thinned(found, step_s=step_s)

    async def open(self) -> None:
        """Check the store's schema; raise `Newer`. A store that is away is waited for."""
        try:
            await self._store.open()
        except Unavailable as error:
            self._faults.note("state", str(error))

    async def run(self) -> None:
        """Lead or stand by until cancelled; then give the lease back."""
        await self._reign.run()

    async def _seen_who_leads(self) -> None:
        self._tell_role()
        await self._settle_doubts()

    async def _keep(self, lease: Lease, name: str, after: Declaration | None) -> None:
        try:
            await self._store.declare(lease, {name: after})
        except Unavailable as error:
            # The store may have done it and not been heard: it is told again what holds when it is back.
            self._doubtful.add(name)
            raise NotKept(f"the state store is away: {error}") from None
        except Lost as error:
            raise NotKept(str(error)) from None

    async def _settle_doubts(self) -> None:
        if not self._doubtful or self._reign.led is None or not self._leadership.certain:
            return
        async with self._reign.changing:
            views = self.views
            true = {name: views[name].declaration if name in views else None for name in self._doubtful}
            with contextlib.suppress(Unavailable, Lost):
                await self._store.declare(self._reign.led, true)
                self._doubtful.clear()

    async def _tell_tick(self, cycle: Cycle) -> None:
        outcome, declared = cycle.outcome, cycle.declaration
        if outcome is None or not self.listeners.any_for(cycle.name):
            return
        apart = turns.telling_period(len(outcome.table.peers))
        if turns.is_turn(outcome.table.generation, 0, apart):
            # Of 10,000 servers this takes most of a second.
            data = await asyncio.to_thread(lambda: _json(overview(outcome, declared)))
            self.listeners.tell(Event("tick", cycle.name, data))

    def _tell_change(self, name: str, after: Declaration | None, what: str) -> None:
        revision = None if after is None else after.revision
        document = {"upstream": name, "revision": revision, "what": what}
        self.listeners.tell(Event("change", name, _json(document)))

    def _tell_role(self) -> None:
        now = (self.role, self.leader)
        if now != self._told:
            self._told = now
            self.listeners.tell(Event("role", None, _json(self.document())))

    @contextlib.contextmanager
    def subscribe(self, upstream: str | None = None) -> Iterator[asyncio.Queue[Event]]:
        """Yield a queue of what happens, of one upstream or of all."""
        with self.listeners.subscribe(upstream) as queue:
            queue.put_nowait(Event("role", None, _json(self.document())))
            yield queue


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
