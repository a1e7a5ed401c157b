"""The tick loop: read the messages of every upstream, decide, publish the tables, save the state.

I/O around pure cycles. The order within a tick is fixed. It reads everything at
once. Then each upstream decides on that alone and publishes its table. At the
end the memories and the history are saved. Memcached and the store may each
fail on their own: without Memcached the laws still step (and learn nothing),
without the store the loop goes on from memory. A tick waits for either for a
fraction of a second at most, however many upstreams there are. The laws run in
a thread, so a large upstream, or a law that hangs, blocks neither the lease nor
the API.

Before it publishes, a tick compares the terms of the tables in Memcached with
its own. A higher term means that another controller leads, and ends this lead.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace
from opentelemetry.trace import Tracer
from steelyard_protocol import balancer_runs, wire
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.wire import Refused

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import LOAD_BALANCERS
from steelyard_controller.faults import Faults
from steelyard_controller.messages.balancers_of_one_name import SharedNames
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.published_tables import Held, PublishedTables
from steelyard_controller.messages.published_upstreams import PublishedUpstreams
from steelyard_controller.store.interface import HigherTerm, Store
from steelyard_controller.store.lease import Lease
from steelyard_controller.tick import batch, tick_messages
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.faults_by_upstream import UpstreamFaults, is_bug
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.state_saver import StateSaver
from steelyard_controller.tick.tick_messages import Messages

log = logging.getLogger("steelyard.controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tick:
    """The arguments of one tick, and what failed in it: Memcached servers (`skip`) and upstreams' ticks."""

    now_s: float
    lease: Lease
    certain: Callable[[], bool]
    addresses: Mapping[str, Mapping[str, str]]
    progressed: Callable[[], None]
    skip: set[str]
    failed: list[Cycle]


class _Ticked(Struct, frozen=True):
    """An upstream's outcome, and the CPU seconds of its tick without the saving."""

    cycle: Cycle
    outcome: Outcome
    used_s: float


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
        installation: str = "",
        load_balancers: tuple[str, ...] = LOAD_BALANCERS,
        tracer: Tracer | None = None,
    ) -> None:
        self.tick_s = tick_s
        self.faults = faults
        self.published = PublishedTables(pipeline, keys=keys, refused=self._refuse)
        self._pipeline = pipeline
        self._keys = keys
        self._load_balancers = load_balancers
        self._tracer = tracer
        self._cycles: dict[str, Cycle] = {}
        self._unresumed: set[str] = set()
        self._published_upstreams = PublishedUpstreams(pipeline, keys=keys, installation=installation)
        self._upstream_faults = UpstreamFaults(faults)
        self._shared_names = SharedNames()
        moments = max(1, round(history_s / tick_s))
        self._saver = StateSaver(store, moments=moments, faults=faults, faults_of=self.faults_of)
        # Refused tables of upstreams that are not added yet.
        self._refused: dict[str, Refused] = {}
        # The highest generation among deleted upstreams: one that is declared again goes on above it.
        self._deleted_generation = 0

    @property
    def cycles(self) -> Mapping[str, Cycle]:
        """The upstreams by name."""
        return self._cycles

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
        """Do one tick of every upstream, or of `only` these, except those that are `unresumed`.

        now_s       the controller's monotonic clock
        certain     whether this controller may write under the lease now; if not, the tick ends with
                    `Forbidden`
        addresses   IP:port by upstream and peer, for upstreams with host names; such an upstream has no
                    tick if it is not among them
        keep        whether the store can be written to
        done        called with each upstream when it has its outcome
        progressed  called after each step of the tick

        Raises `LeaseLost` when another controller has the lease.
        """
        tick = _Tick(
            now_s=now_s,
            lease=lease,
            certain=certain,
            addresses=addresses,
            progressed=progressed,
            skip=set(),
            failed=[],
        )
        try:
            ticked = await self._tick(tick, keep=keep, only=only)
        finally:
            self._upstream_faults.settle()
        for cycle in tick.failed:
            self._show(cycle, cycle.outcome)
        for each in ticked:
            if self._show(each.cycle, each.outcome):
                done(each.cycle)
                progressed()

    async def _tick(self, tick: _Tick, *, keep: bool, only: Collection[str] | None) -> list[_Ticked]:
        cycles = self._due(tick.addresses, only)
        with self.span("read", cycles):
            list_key = self._published_upstreams.key
            messages = await tick_messages.read(
                self._pipeline, cycles, self._cycles, tick.skip, list_key=list_key
            )
        self._note_servers()
        self._note_shared_names(messages.lists, tick.now_s)
        tick.progressed()
        await self._refuse_higher_terms(messages, tick.lease)
        await self._publish_list(messages.lists, tick)
        ticked: list[_Ticked] = []
        laws_fault: str | None = None
        for cycles_of_batch in batch.batches(cycles):
            newly_ticked, fault = await self._tick_batch(cycles_of_batch, messages, tick)
            ticked += newly_ticked
            laws_fault = laws_fault or fault
        self.faults.note("laws", laws_fault)
        tick.progressed()
        saving_s: dict[str, float] = {}
        if not keep:
            self._saver.rest()
        else:
            with self.span("save"):
                saved = [(each.cycle, each.outcome) for each in ticked]
                saving_s = await self._saver.save_due(saved, tick.lease)
        for each in ticked:
            each.cycle.cpu_time.add(each.used_s + saving_s.get(each.cycle.name, 0.0))
        return ticked

    def _due(self, addresses: Mapping[str, Mapping[str, str]], only: Collection[str] | None) -> list[Cycle]:
        """Return the upstreams with a tick now: they are resumed, and their names have addresses."""
        return [
            cycle
            for name, cycle in self._cycles.items()
            if name not in self._unresumed
            and (only is None or name in only)
            and (not cycle.has_names or name in addresses)
        ]

    async def _tick_batch(
        self, cycles: Sequence[Cycle], messages: Messages, tick: _Tick
    ) -> tuple[list[_Ticked], str | None]:
        """Decide and publish for some upstreams; return those that succeeded, and the laws' fault."""
        tick.progressed()
        began_s = time.process_time()
        with self.span("decide", cycles):
            outcomes, laws_fault = await self._decide(cycles, messages.values, tick)
        tick.progressed()
        with self.span("publish", cycles):
            tables = [
                outcome.table
                for cycle, outcome in zip(cycles, outcomes, strict=True)
                if isinstance(outcome, Outcome) and not self._is_gone(cycle)
            ]
            failed = await self.published.publish(
                tables, messages.tables, certain=tick.certain, skip=tick.skip
            )
        self._note_servers()
        used_s = (time.process_time() - began_s) / len(cycles)
        ticked: list[_Ticked] = []
        for cycle, outcome in zip(cycles, outcomes, strict=True):
            if self._is_gone(cycle):
                continue
            error = outcome if isinstance(outcome, Exception) else failed.get(cycle.name)
            self._upstream_faults.note_tick(cycle, error)
            if isinstance(outcome, Exception) or is_bug(error):
                tick.failed.append(cycle)
            else:
                ticked.append(_Ticked(cycle=cycle, outcome=outcome, used_s=used_s))
        return ticked, laws_fault

    async def _decide(
        self, cycles: Sequence[Cycle], values: Mapping[str, bytes] | None, tick: _Tick
    ) -> tuple[list[Outcome | Exception], str | None]:
        """Step the laws in a thread; return each upstream's outcome or bug, and the laws' fault."""
        ended, laws_fault = await asyncio.to_thread(
            batch.advance,
            cycles,
            values,
            now_s=tick.now_s,
            term=tick.lease.term,
            issued_at_ms=time.time_ns() // 1_000_000,
            addresses=tick.addresses,
        )
        outcomes: list[Outcome | Exception] = []
        for cycle, result in zip(cycles, ended, strict=True):
            if isinstance(result, Exception):
                outcomes.append(result)
                continue
            outcome, refusals = result
            outcomes.append(outcome)
            if not self._is_gone(cycle):
                self._upstream_faults.note_messages(cycle, outcome, refusals)
        return outcomes, laws_fault

    def _show(self, cycle: Cycle, outcome: Outcome | None) -> bool:
        """Replace the outcome that the API reads; tell whether the upstream is still there."""
        if self._is_gone(cycle):
            return False
        degraded = self._upstream_faults.own(cycle.name)
        if outcome is not None and outcome.degraded != degraded:
            outcome = replace(outcome, degraded=degraded)
        cycle.outcome = outcome
        return True

    def span(self, name: str, cycles: Sequence[Cycle] = ()) -> AbstractContextManager[object]:
        """Return the span of a tick, or of a step for these upstreams; an empty one without a tracer."""
        if self._tracer is None:
            return nullcontext()
        size = {"steelyard.upstreams": len(cycles), "steelyard.peers": sum(cycle.size for cycle in cycles)}
        return self._tracer.start_as_current_span(name, attributes=size if cycles else None)

    async def highest_term(self, upstreams: Iterable[str]) -> int:
        """Return the highest term among these upstreams' tables in Memcached and the list of upstreams."""
        tables = await self.published.highest_term(await self.published.read(sorted(upstreams), set()))
        return max(tables, self._published_upstreams.highest_term(await self._published_upstreams.read()))

    async def save_last(self, lease: Lease) -> None:
        """Save the state of every upstream for the next leader."""
        await self._saver.save_last(list(self._cycles.values()), lease)

    def follow(self, upstream: str, declaration: Declaration) -> None:
        """Follow a changed declaration from the next tick on; add an upstream that is new."""
        if upstream in self._cycles:
            self._cycles[upstream].declaration = declaration
            return
        cycle = Cycle(
            upstream,
            declaration,
            tick_s=self.tick_s,
            keys=self._keys,
            load_balancers=self._load_balancers,
        )
        # The upstream may have been deleted in this term: the generation of its tables must not go back.
        cycle.overtake(self._deleted_generation)
        if upstream in self._refused:
            cycle.refuse(self._refused.pop(upstream))
        cycle.added_s = time.monotonic()
        self._cycles[upstream] = cycle

    def forget(self, upstream: str) -> None:
        """Drop an upstream; its published table expires by its time to live."""
        cycle = self._cycles.pop(upstream, None)
        if cycle is not None:
            self._deleted_generation = max(self._deleted_generation, cycle.generation)
        self._unresumed.discard(upstream)
        self.published.forget(upstream)
        self._upstream_faults.forget(upstream)

    def faults_of(self, upstream: str) -> Faults:
        """Return the faults of one upstream."""
        return self._upstream_faults.of(upstream)

    def stop(self) -> None:
        """Drop the outcomes: another controller leads, and the API asks that one."""
        self._upstream_faults.stop()
        self.faults.note("load balancers", None)
        for cycle in self._cycles.values():
            cycle.outcome = None

    def _is_gone(self, cycle: Cycle) -> bool:
        """Tell whether the upstream was deleted during this tick."""
        return self._cycles.get(cycle.name) is not cycle

    async def _refuse_higher_terms(self, messages: Messages, lease: Lease) -> None:
        """Raise `HigherTerm` if a table or list has a higher term: another controller has led since."""
        highest = await self.published.highest_term(messages.tables)
        if highest > lease.term:
            raise HigherTerm(f"Memcached holds a table of term {highest} ({self.published.of_term(highest)})")
        list_term = self._published_upstreams.highest_term(messages.lists)
        if list_term > lease.term:
            raise HigherTerm(f"Memcached holds a list of upstreams of term {list_term}")

    async def _publish_list(self, lists: Held, tick: _Tick) -> None:
        """Publish the list of upstreams if Memcached has another one."""
        fault = await self._published_upstreams.publish(
            self._cycles, lists, term=tick.lease.term, certain=tick.certain, skip=tick.skip
        )
        self.faults.note("list of upstreams", fault)

    def _refuse(self, upstream: str, refused: Refused) -> None:
        """Count a refused table for its upstream, even if that is still to be added."""
        if upstream in self._cycles:
            self._cycles[upstream].refuse(refused)
        else:
            self._refused[upstream] = refused

    def _note_shared_names(self, lists: Held, now_s: float) -> None:
        values = [seen[wire.RUNS_KEY].value for seen in lists.values() if wire.RUNS_KEY in seen]
        self._shared_names = self._shared_names.after(balancer_runs.read(values), now_s)
        self.faults.note("load balancers", self._shared_names.fault)

    def _note_servers(self) -> None:
        for server, fault in self._pipeline.faults.items():
            self.faults.note(f"memcached {server}", fault)
