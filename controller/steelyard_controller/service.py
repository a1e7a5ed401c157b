"""The controller as the API sees it: its role, its upstreams, changes of declarations, and events.

I/O by its parts. Every change goes through `change`: one at a time, and stored
under the lease before the tick loop follows it. So a change that was answered
with success outlives this process, and one that was not has changed nothing.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal

from steelyard_controller.declarations import audit, discovered
from steelyard_controller.declarations import declaration as declarations
from steelyard_controller.declarations.audit import Author
from steelyard_controller.declarations.declaration import Declaration, Unknown
from steelyard_controller.declarations.discovered import Pod
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.events import Event, Listeners, Subscriber
from steelyard_controller.faults import Faults
from steelyard_controller.instruments import Instruments
from steelyard_controller.leader.election import Election
from steelyard_controller.leader.leader_loop import Addresses, LeaderLoop
from steelyard_controller.leader.takeover import Takeover
from steelyard_controller.overview_events import OverviewEvents
from steelyard_controller.store.interface import LeaseLost, Store, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick import history_moment
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.overview import of_view, overview
from steelyard_controller.tick.shown_rows import View
from steelyard_controller.tick.table_builder import refuse_unpublishable
from steelyard_controller.tick.tick_loop import TickLoop

log = logging.getLogger("steelyard.controller")

Role = Literal["leader", "standby", "waiting"]
"""`waiting`: it neither leads nor knows a leader: the store is unreachable, or the lease has just ended."""

# The most moments in one answer about the history; a plot has fewer pixels.
MOST_MOMENTS = 2000

# Audit entries read at a time, some 400 kB. Only a few of them may belong to the requested upstream.
AUDIT_PAGE_ENTRIES = 1000

_Change = Callable[[Declaration | None], Declaration | None]

PUT_BACK = "restored: the store did not answer a change, and may have stored it all the same"


class NotLeading(Exception):
    """Another controller leads, or none; only the leader can do this."""


class NotStored(Exception):
    """The store did not take the change, so nothing has changed; the message has the reason."""


class Conflict(Exception):
    """The declaration has another revision than the change expects."""


class Service:
    """One controller."""

    def __init__(
        self,
        *,
        id: str,
        installation: str = "",
        loop: TickLoop,
        election: Election,
        store: Store,
        faults: Faults,
        file: Mapping[str, Upstream],
        tick_s: float,
        lease_s: float,
        version: str,
        instruments: Instruments,
        addresses: Addresses,
        discovery: Discovery | None = None,
    ) -> None:
        self.id = id
        self.installation = installation
        self._loop = loop
        self._election = election
        self._store = store
        self.faults = faults
        self._file = file
        self.tick_s = tick_s
        self.version = version
        self.instruments = instruments
        self.discovery = discovery
        self._started_s = time.monotonic()
        self.listeners = Listeners()
        self._after_ticks: list[Callable[[], None]] = []
        self._overviews = OverviewEvents(self.listeners, lambda: self.views, _overview)
        self.leader_loop = LeaderLoop(
            loop=loop,
            election=election,
            takeover=Takeover(loop=loop, store=store, file=file, faults=faults),
            faults=faults,
            tick_s=tick_s,
            lease_s=lease_s,
            addresses=addresses,
            ticked=instruments.ticked,
            on_tick=self._after_tick,
            on_step=self._after_election_step,
        )
        self._unconfirmed: set[str] = set()
        self._published_role: tuple[Role, Lease | None, tuple[str, ...]] | None = None

    @property
    def views(self) -> Mapping[str, Cycle]:
        """Return the upstreams by name: declaration, last outcome, overruns, CPU time of ticks."""
        return self._loop.cycles

    @property
    def role(self) -> Role:
        """Return this controller's role."""
        if self.leader_loop.led is not None:
            return "leader"
        return "standby" if self._election.seen is not None else "waiting"

    @property
    def term(self) -> int | None:
        """Return the term in which this controller leads; None: it does not lead."""
        return None if self.leader_loop.led is None else self.leader_loop.led.term

    @property
    def leader(self) -> Lease | None:
        """Return the leader's lease, as last seen."""
        return self._election.seen

    @property
    def lease_left_s(self) -> float | None:
        """Return the seconds for which this controller leads without a renewal; None: it does not lead."""
        return self._election.left_s

    @property
    def volatile(self) -> bool:
        """Return whether all state is lost at the end of this process."""
        return self._store.volatile

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return a line for each part that does not work."""
        return self.faults.lines()

    def faults_document(self) -> dict[str, object]:
        """Return who this controller is, and its faults, for the answers about upstreams."""
        return {"id": self.id, "degraded": list(self.degraded)}

    def document(self) -> dict[str, object]:
        """Return the answer to `GET /v1/service`."""
        leader = self.leader
        return {
            "id": self.id,
            "installation": self.installation or None,
            "role": self.role,
            "term": self.term,
            "leader": None if leader is None else {"id": leader.holder, "url": leader.url},
            "version": self.version,
            "tick_s": self.tick_s,
            "state": "memory" if self.volatile else "redis",
            "degraded": list(self.degraded),
            "uptime_s": round(time.monotonic() - self._started_s, 1),
        }

    async def change(
        self,
        name: str,
        edit: Callable[[Upstream | None], Upstream | None],
        *,
        revision: int | None = None,
        by: Author = audit.CONTROLLER,
        dry_run: bool = False,
    ) -> Declaration | None:
        """Change the declaration of an upstream, and return it as stored; None: the upstream is deleted.

        edit       gets the declared upstream, or None; returns the changed one, or None to delete it
        revision   the revision that the change expects
        by         the author, for the log and the audit log
        dry_run    return and raise the same, but change nothing

        If this raises, nothing has changed. It raises the errors of `edit`, `Conflict` for another revision,
        `NotLeading`, `NotStored`, and ValueError for an upstream that cannot be published.
        """

        def changed(before: Declaration | None) -> Declaration | None:
            if revision is not None and revision != (before.revision if before else 0):
                has = f"has revision {before.revision}" if before else "does not exist"
                raise Conflict(f"upstream {name} {has}, not revision {revision}: read it again")
            upstream = edit(before.upstream if before else None)
            if upstream is None:
                if before is None:
                    raise Unknown(f"there is no upstream {name}")
                self._refuse_deletion(name)
                return None
            if before is None:
                return Declaration(upstream=upstream)
            if self.declaring_service(name) is not None:
                upstream = discovered.with_pods_kept(upstream, before.upstream, before.pods)
            is_same = declarations.differences(before.upstream, upstream) == declarations.UNCHANGED
            return before if is_same else before.changed(upstream)

        return await asyncio.shield(self._change(name, changed, by, dry_run))

    async def declare_pods(self, name: str, service: str, pods: Sequence[Pod]) -> str | None:
        """Declare the pods of a Service (namespace/name) as servers of an upstream, new or known.

        Return why nothing changed. None: it changed, or another controller leads and will do it.
        """

        def changed(before: Declaration | None) -> Declaration | None:
            return declarations.with_pods(before, service=service, pods=pods) or before

        of_service = Author(name=f"Service {service}", kind="kubernetes")
        try:
            await asyncio.shield(self._change(name, changed, of_service, False))
        except NotLeading:
            return None
        except (NotStored, ValueError) as error:
            return str(error)
        return None

    def declaring_service(self, name: str) -> str | None:
        """Return the Service (namespace/name) that declares an upstream's pods now; None: there is none."""
        view = self.views.get(name)
        if self.discovery is None or view is None:
            return None
        known = view.declaration.discovered
        return self.discovery.declaring_service(name, None if known is None else known.service)

    def _refuse_deletion(self, name: str) -> None:
        if name in self._file:
            raise ValueError(
                f"{name} is in the configuration file, which would declare it again at the next start: "
                "remove it there, restart the controller, and delete it then"
            )
        service = self.declaring_service(name)
        if service is not None:
            raise ValueError(
                f"the Kubernetes Service {service} declares {name}, and would declare it again: remove its "
                "annotation steelyard/upstream, and delete the upstream then"
            )

    async def _change(self, name: str, changed: _Change, by: Author, dry_run: bool) -> Declaration | None:
        # It must be shielded: a client that leaves must not make the store and this memory disagree.
        async with self.leader_loop.changing:
            lease = self.leader_loop.led
            if lease is None:
                raise NotLeading
            cycle = self.views.get(name)
            before = None if cycle is None else cycle.declaration
            after = changed(before)
            if after is before:
                return before
            if after is not None:
                refuse_unpublishable(name, after.upstream)
            if dry_run:
                return after
            summary = declarations.all_differences(before, after)
            entry = audit.entry(by, name, before, after, at_ms=_now_ms(), what=summary)
            await self._keep(lease, name, after, entry)
            if after is None:
                self._loop.forget(name)
            else:
                self._loop.follow(name, after)
            log.info("%s: %s", name, summary, extra={"event": "declared", "upstream": name, "by": str(by)})
            revision = None if after is None else after.revision
            document = {"upstream": name, "revision": revision, "what": summary}
            self.listeners.publish("change", name, _json(document))
            return after

    async def history(
        self, name: str, *, seconds: float, step_s: float, peers: Sequence[str] | None = None
    ) -> list[bytes]:
        """Return history moments as JSON, oldest first; raise `Unavailable` if the store is unreachable.

        With `peers`, each moment has the columns of these peers, and a summary of all.
        """
        moments = await self._store.history(name, seconds=seconds, most=MOST_MOMENTS)
        # Up to 8 MB of JSON take a tenth of a second, so they must not block the event loop.
        return await asyncio.to_thread(history_moment.thinned, moments, step_s=step_s, peers=peers)

    async def audit_log(
        self,
        *,
        before: int | None = None,
        most: int,
        upstream: str | None = None,
        origin: audit.Origin | None = None,
    ) -> list[dict[str, Any]]:
        """Return the audit log, newest first, of one upstream and origin or of all; raise `Unavailable`."""
        entries: list[dict[str, Any]] = []
        while len(entries) < most:
            page = await self._store.audit(before=before, most=AUDIT_PAGE_ENTRIES)
            entries += await asyncio.to_thread(audit.decoded, page, upstream, origin)
            if len(page) < AUDIT_PAGE_ENTRIES:
                break
            before = page[-1][0]
        return entries[:most]

    def after_tick(self, call: Callable[[], None]) -> None:
        """Call `call` after each tick of an upstream, when its outcome has been replaced."""
        self._after_ticks.append(call)

    async def open(self) -> None:
        """Check the store's schema; raise `NewerVersion`. An unreachable store is noted as a fault."""
        try:
            await self._store.open()
        except Unavailable as error:
            self.faults.note("state", str(error))

    async def run(self) -> None:
        """Lead or stand by until cancelled; then release the lease. Raises unexpected errors."""
        beside = [asyncio.create_task(self._overviews.run(), name="overviews")]
        if self.discovery is not None:
            beside.append(asyncio.create_task(self.discovery.run(self), name="discovery"))
        try:
            await self.leader_loop.run()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    def _after_tick(self, cycle: Cycle) -> None:
        self._overviews.note(cycle.name)
        for call in self._after_ticks:
            call()

    async def _after_election_step(self) -> None:
        self._publish_role()
        await self._write_unconfirmed()

    async def _keep(
        self, lease: Lease, name: str, after: Declaration | None, entry: audit.Entry | None
    ) -> None:
        try:
            await self._store.declare(lease, {name: after}, [entry] if entry else [])
        except Unavailable as error:
            # The store may have stored it without an answer: write the present declaration when it is back.
            self._unconfirmed.add(name)
            raise NotStored(f"the state store is unreachable: {error}") from None
        except LeaseLost as error:
            raise NotStored(str(error)) from None

    async def _write_unconfirmed(self) -> None:
        if not self._unconfirmed or self.leader_loop.led is None or not self._election.certain:
            return
        async with self.leader_loop.changing:
            views = self.views
            true = {name: views[name].declaration if name in views else None for name in self._unconfirmed}
            entries = [
                audit.entry(audit.CONTROLLER, name, now, now, at_ms=_now_ms(), what=PUT_BACK)
                for name, now in true.items()
            ]
            with contextlib.suppress(Unavailable, LeaseLost):
                await self._store.declare(self.leader_loop.led, true, [each for each in entries if each])
                self._unconfirmed.clear()

    def _publish_role(self) -> None:
        # The texts may change at each step, such as the seconds for which a tick hangs.
        faulty = tuple(line.partition(":")[0] for line in self.degraded)
        now = (self.role, self.leader, faulty)
        if now != self._published_role:
            self._published_role = now
            self.listeners.publish("role", None, _json(self.document()))

    @contextlib.contextmanager
    def subscribe(
        self, upstream: str | None = None, *, view: View | None = None, after: str | None = None
    ) -> Iterator[tuple[Event, Subscriber]]:
        """Yield the role, and a subscriber to the events of one upstream or of all, from an event's id on.

        Its overviews have the part in the view; None: all.
        """
        with self.listeners.subscribe(upstream, view=view, after=after) as subscriber:
            for name in sorted(self.views) if upstream is None else [upstream]:
                self._overviews.note(name)
            yield Event("role", None, _json(self.document()), subscriber.id), subscriber


def _now_ms() -> int:
    return round(time.time() * 1000)


def _overview(cycle: Cycle, view: Hashable) -> bytes | None:
    outcome, declared = cycle.outcome, cycle.declaration
    if outcome is None:
        return None
    return _json(of_view(outcome, declared, view) if isinstance(view, View) else overview(outcome, declared))


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
