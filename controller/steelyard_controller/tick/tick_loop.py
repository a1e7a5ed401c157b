"""The tick loop: read the messages of every upstream, decide, publish the tables, save what was learnt.

I/O around pure cycles. The order within a tick is fixed: everything is read
at once, then each upstream decides on that alone and publishes, then the
memories and the history are saved. Memcached and the store may each fail by
themselves: without Memcached the laws still step (and learn nothing), without
the store the loop goes on from memory. A tick waits for neither longer than a
fraction of a second, however many upstreams there are. Deciding is done in a
thread, so that a large upstream, or a law that hangs, keeps neither the lease nor the API waiting.

Before anything is published the tables in Memcached are read: one of a higher
term means that another controller leads, and ends this one's lead.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from opentelemetry.trace import Tracer
from steelyard_protocol import announced, memcached_client, weight_table, wire
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.wire import Refused

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import LOAD_BALANCERS
from steelyard_controller.faults import Faults
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_tables import Held, PublishedTables
from steelyard_controller.messages.published_upstreams import PublishedUpstreams
from steelyard_controller.store.interface import LeaseLost, Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick import batch, upstream_faults
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.state_saver import StateSaver

log = logging.getLogger("steelyard.controller")

NOT_PUBLISHED = memcached_client.Unavailable | weight_table.TableTooLarge
"""The world's failures to publish; another error is a bug."""


class TickLoop:
    """Ticks of the cycles under one lease."""

    def __init__(
        self,
        *,
        pipeline: MemcachedPool,
        store: Store,
        tick_s: float,
        history_s: float,
        keys: Keyring,
        faults: Faults,
        load_balancers: tuple[str, ...] = LOAD_BALANCERS,
        tracer: Tracer | None = None,
    ) -> None:
        self._pipeline = pipeline
        self.tick_s = tick_s
        self._keys = keys
        self.faults = faults
        self._load_balancers = load_balancers
        self._tracer = tracer
        self.cycles: dict[str, Cycle] = {}
        self._unresumed: set[str] = set()
        self.published = PublishedTables(pipeline, keys=keys, refused=self._refuse)
        self._published_upstreams = PublishedUpstreams(pipeline, keys=keys)
        self._of_upstream: dict[str, Faults] = {}
        moments = max(1, round(history_s / tick_s))
        self._saver = StateSaver(store, moments=moments, faults=faults, faults_of=self.faults_of)
        self._refused: dict[str, Refused] = {}
        self._forgotten = 0

    @property
    def unresumed(self) -> AbstractSet[str]:
        """The upstreams without a tick: their saved state is still to be read."""
        return self._unresumed

    def hold_back(self, upstreams: Iterable[str]) -> None:
        """Give these upstreams, and no others, no tick until they are resumed."""
        self._unresumed = set(upstreams)

    def mark_resumed(self, upstreams: Iterable[str]) -> None:
        """Let these upstreams have their ticks: their saved state has been read."""
        self._unresumed.difference_update(upstreams)

    async def tick(
        self,
        now_s: float,
        *,
        lease: Lease,
        certain: Callable[[], bool],
        addresses: Mapping[str, Mapping[str, str]],
        keep: bool = True,
        only: Collection[str] | None = None,
        done: Callable[[Cycle], None] = lambda _: None,
        progressed: Callable[[], None] = lambda: None,
    ) -> None:
        """Do one tick of every upstream, or with `only` of these, but for those that are `unresumed`.

        `certain` tells whether this controller may write under the lease; where it says no, the tick ends
        with `Forbidden`. Raises `LeaseLost` when another controller has the lease. `addresses` has the
        resolved peers of each upstream that has host names; one that is not in it has no tick. `keep` tells
        whether the store can be written to; `done` is called when an upstream has its outcome;
        `progressed` is called whenever a step of the tick is done.
        """
        cycles = [
            each
            for each in self.cycles.values()
            if each.name not in self._unresumed
            and (only is None or each.name in only)
            and (not each.has_names or each.name in addresses)
        ]
        skip: set[str] = set()
        with self.span("read", cycles):
            lists, tables, values = await self._read(cycles, skip)
        self._note_servers()
        progressed()
        await self._refuse_higher(tables, lists, lease)
        fault = await self._published_upstreams.publish(
            self.cycles, lists, term=lease.term, certain=certain, skip=skip
        )
        self.faults.note("list of upstreams", fault)
        done_now: list[tuple[Cycle, Outcome, float]] = []
        alone: str | None = None
        for some in batch.batches(cycles):
            progressed()
            began_s = time.process_time()
            with self.span("decide", some):
                advanced, fault = await self._advance(some, values, now_s, lease, addresses)
            alone = alone or fault
            both = list(zip(some, advanced, strict=True))
            new = [
                outcome.table
                for cycle, outcome in both
                if isinstance(outcome, Outcome) and not self._is_gone(cycle)
            ]
            progressed()
            with self.span("publish", some):
                failed = await self.published.publish(new, tables, certain=certain, skip=skip)
            self._note_servers()
            used_s = (time.process_time() - began_s) / len(some)
            for cycle, outcome in both:
                error = failed.get(cycle.name)
                if self._is_gone(cycle):
                    continue
                if isinstance(outcome, Exception):
                    self._note_failure(cycle, outcome)
                elif error is not None and not isinstance(error, NOT_PUBLISHED):
                    self._note_failure(cycle, error)
                else:
                    self.faults_of(cycle.name).note("publishing", None if error is None else str(error))
                    self.faults_of(cycle.name).note("tick", None)
                    done_now.append((cycle, outcome, used_s))
        self.faults.note("laws", alone)
        progressed()
        outcomes = [(cycle, outcome) for cycle, outcome, _ in done_now]
        with self.span("save"):
            kept_s = await self._saver.save_due(outcomes, lease) if keep else {}
        for cycle, outcome, used_s in done_now:
            cycle.used.add(used_s + kept_s.get(cycle.name, 0.0))
            if not self._is_gone(cycle):
                degraded = self._degraded(cycle.name)
                cycle.outcome = replace(outcome, degraded=degraded) if degraded else outcome
                done(cycle)
                progressed()

    async def _advance(
        self,
        cycles: Sequence[Cycle],
        values: Mapping[str, bytes] | None,
        now_s: float,
        lease: Lease,
        addresses: Mapping[str, Mapping[str, str]],
    ) -> tuple[list[Outcome | Exception], str | None]:
        ended, fault = await asyncio.to_thread(
            batch.advance,
            cycles,
            values,
            now_s=now_s,
            term=lease.term,
            issued_at_ms=time.time_ns() // 1_000_000,
            addresses=addresses,
        )
        outcomes: list[Outcome | Exception] = []
        for cycle, each in zip(cycles, ended, strict=True):
            outcome, lines = (each, []) if isinstance(each, Exception) else each
            outcomes.append(outcome)
            if not isinstance(outcome, Exception) and not self._is_gone(cycle):
                for line in lines:
                    log.warning(
                        "%s: %s", cycle.name, line, extra={"event": "refused", "upstream": cycle.name}
                    )
                for line in cycle.balancer_changes:
                    log.info(
                        "%s: %s", cycle.name, line, extra={"event": "load balancer", "upstream": cycle.name}
                    )
                for part, fault in {**cycle.faults, "terms": upstream_faults.terms(outcome)}.items():
                    self.faults_of(cycle.name).note(part, fault)
        return outcomes, fault

    def _note_failure(self, cycle: Cycle, error: Exception) -> None:
        """Count a tick that a bug ended: this upstream's last table holds, and the others have theirs."""
        cycle.failures += 1
        faults = self.faults_of(cycle.name)
        if "tick" not in faults.now:
            log.error("%s: a tick failed", cycle.name, exc_info=error, extra={"upstream": cycle.name})
        faults.note("tick", f"it fails ({type(error).__name__}: {error}); the last table holds, see the log")
        if cycle.outcome is not None and not self._is_gone(cycle):
            cycle.outcome = replace(cycle.outcome, degraded=self._degraded(cycle.name))

    def _degraded(self, upstream: str) -> tuple[str, ...]:
        return (*self.faults.lines(), *self.faults_of(upstream).lines())

    def span(self, name: str, cycles: Sequence[Cycle] = ()) -> AbstractContextManager[object]:
        """Return the span of a tick, or of a step of it for these upstreams; without a tracer none."""
        if self._tracer is None:
            return nullcontext()
        size = {"steelyard.upstreams": len(cycles), "steelyard.peers": sum(cycle.size for cycle in cycles)}
        return self._tracer.start_as_current_span(name, attributes=size if cycles else None)

    async def highest_term(self, upstreams: Iterable[str]) -> int:
        """Return the highest term among the tables of these upstreams in Memcached and the list of them."""
        tables = await self.published.highest_term(await self.published.read(sorted(upstreams), set()))
        return max(tables, self._published_upstreams.highest_term(await self._published_upstreams.read()))

    async def save_last(self, lease: Lease) -> None:
        """Save the state of every upstream for the next leader."""
        await self._saver.save_last(list(self.cycles.values()), lease)

    def follow(self, upstream: str, declaration: Declaration) -> None:
        """Follow a changed declaration from the next tick on; add an upstream that is new."""
        if upstream in self.cycles:
            self.cycles[upstream].declaration = declaration
            return
        cycle = Cycle(
            upstream,
            declaration,
            tick_s=self.tick_s,
            keys=self._keys,
            load_balancers=self._load_balancers,
        )
        # It may have been deleted in this term: the generation of its tables must not go back.
        cycle.overtake(self._forgotten)
        if upstream in self._refused:
            cycle.refuse(self._refused.pop(upstream))
        cycle.added_s = time.monotonic()
        self.cycles[upstream] = cycle

    def forget(self, upstream: str) -> None:
        """Drop an upstream; its published table expires by its time to live."""
        cycle = self.cycles.pop(upstream, None)
        if cycle is not None:
            self._forgotten = max(self._forgotten, cycle.generation)
        self._unresumed.discard(upstream)
        self.published.forget(upstream)
        self._of_upstream.pop(upstream, None)

    def faults_of(self, upstream: str) -> Faults:
        """Return the faults of one upstream."""
        faults = self._of_upstream.get(upstream)
        return self._of_upstream.setdefault(upstream, Faults(upstream)) if faults is None else faults

    def _is_gone(self, cycle: Cycle) -> bool:
        """Tell whether the upstream was deleted during this tick."""
        return self.cycles.get(cycle.name) is not cycle

    async def _read(
        self, cycles: Sequence[Cycle], skip: set[str]
    ) -> tuple[Held, Held, dict[str, bytes] | None]:
        """Return what each server holds of the list and of announcements, and of the tables; the messages."""
        lists = [wire.UPSTREAMS_KEY, wire.ANNOUNCED_KEY]
        keys = [key for cycle in cycles for key in cycle.keys()]  # noqa: SIM118
        watched = [*lists, *(wire.weights_key(cycle.name) for cycle in cycles)]
        try:
            held, values = await self._pipeline.read(watched, keys, skip)
        except memcached_client.Unavailable:
            return {}, {}, None
        taken = {name: {key: each.pop(key) for key in lists if key in each} for name, each in held.items()}
        # Mostly nobody is new among those that announce themselves.
        announcing = self._announce(taken)
        now = [key for cycle in cycles if cycle.name in announcing for key in cycle.keys()]  # noqa: SIM118
        if more := set(now).difference(keys):
            with suppress(memcached_client.Unavailable):  # they are read at the next tick
                values |= await self._pipeline.get_many(sorted(more), skip)
        return taken, held, values

    def _announce(self, held: Held) -> Collection[str]:
        """Have the reports of announced load balancers read; return the upstreams that have some."""
        values = [seen[wire.ANNOUNCED_KEY].value for seen in held.values() if wire.ANNOUNCED_KEY in seen]
        by_upstream = announced.read(values)
        for name, cycle in self.cycles.items():
            cycle.announce(by_upstream.get(name, ()))
        return by_upstream

    async def _refuse_higher(self, tables: Held, lists: Held, lease: Lease) -> None:
        """Raise `LeaseLost` when a table or list is of a higher term: another controller has led since."""
        of_lists = self._published_upstreams.highest_term(lists)
        highest = max(await self.published.highest_term(tables), of_lists)
        if highest > lease.term:
            raise LeaseLost(f"Memcached holds a table of term {highest}")

    def _refuse(self, upstream: str, refused: Refused) -> None:
        """Count a published table that is refused, for its upstream, which may not have been added yet."""
        if upstream in self.cycles:
            self.cycles[upstream].refuse(refused)
        else:
            self._refused[upstream] = refused

    def _note_servers(self) -> None:
        for server, fault in self._pipeline.faults.items():
            self.faults.note(f"memcached {server}", fault)
