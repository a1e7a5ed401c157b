"""One upstream's control cycle: its inbox, the laws' memories, and the outcome of its last tick.

Pure: no I/O, no clock. `tick_loop` reads and writes for it.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from steelyard_protocol import wire
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller import laws
from steelyard_controller.declarations import addresses_in_effect
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import LOAD_BALANCERS, Upstream
from steelyard_controller.fault_causes import Fault
from steelyard_controller.laws.blend import Due, StepResult, blend
from steelyard_controller.laws.headroom import Carried
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages import inbox
from steelyard_controller.messages.inbox import Inbox, Receipt
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.received import NO_KEYS, ReadContext
from steelyard_controller.messages.undeclared_balancers import FORGOTTEN_AFTER_S, UndeclaredBalancers
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick import upstream_faults, upstream_zones
from steelyard_controller.tick.cpu_time import CpuTime
from steelyard_controller.tick.followed_declaration import FollowedDeclaration, load_balancers_of, sample_keys
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.request_counts import RequestCounts
from steelyard_controller.tick.snapshot_builder import NONE_GIVEN, Place, SnapshotInput
from steelyard_controller.tick.stages import Begun, Observed, TakenUp
from steelyard_controller.tick.table_builder import TableBuilder
from steelyard_controller.tick.unreported_indicators import UnreportedIndicators
from steelyard_controller.tick.window_pairing import WindowPairing

# After a longer pause than this, the messages in Memcached may be of any age.
PAUSE_TICKS = 2.5


class Cycle:
    """The state of one upstream between ticks; with a shared key, it accepts signed values only."""

    def __init__(
        self,
        name: str,
        declaration: Declaration,
        *,
        tick_s: float,
        keys: Keyring = NO_KEYS,
        load_balancers: tuple[str, ...] = LOAD_BALANCERS,
    ) -> None:
        self.name = name
        self.declaration = declaration
        """The next tick follows it; a tick that runs in another thread uses this or the previous one."""
        self.outcome: Outcome | None = None
        self.overruns = 0
        self.failures = 0
        self.cpu_time = CpuTime()
        self.forgotten_laws: tuple[str, ...] = ()
        self.added_s = -math.inf
        """The time of its addition here, by the clock of the ticks."""
        self.balancer_changes: list[str] = []
        """A line for each undeclared load balancer that came or left at the last tick."""
        self.requests = RequestCounts()
        """The requests by server that load balancers have reported here."""
        self.resolved: Mapping[str, str] = {}
        """The previous leader's IP address for each host name, if there was a previous leader."""
        self.tick_s = tick_s
        self._keys = keys
        self._load_balancers = load_balancers
        self._followed = FollowedDeclaration(name, declaration, load_balancers)
        self._zones: Zoning | None = None
        self._checked_declaration: Declaration | None = None
        self._has_names = False
        self._inbox = Inbox()
        self._undeclared = UndeclaredBalancers()
        self._silent_before: frozenset[str] = frozenset()
        self._pairing = WindowPairing()
        self._order = (0, 0)
        self._led_since_s = math.inf
        self._last_read_s = -math.inf
        self._read_since_s: float | None = None
        self._memories: Mapping[str, laws.Memory] = {}
        self._tables = TableBuilder(name)
        self._carried = Carried()
        self._unreported = UnreportedIndicators()

    @property
    def size(self) -> int:
        """Return the number of servers declared."""
        return len(self.declaration.upstream.peers)

    @property
    def load_balancers(self) -> tuple[str, ...]:
        """Return the load balancers that are declared."""
        if self.declaration is self._followed.declaration:
            return self._followed.load_balancers
        return load_balancers_of(self.declaration.upstream, self._load_balancers)

    @property
    def has_names(self) -> bool:
        """Return whether any peer is declared by a host name."""
        if self._checked_declaration is not self.declaration:
            self._checked_declaration = self.declaration
            self._has_names = bool(addresses_in_effect.named_peers(self.declaration.upstream))
        return self._has_names

    @property
    def generation(self) -> int:
        """Return the generation of the last table."""
        return self._order[1]

    @property
    def memories(self) -> Mapping[str, laws.Memory]:
        """Return the laws' memories by name."""
        return self._memories

    def saved(self, *, term: int, memories: Mapping[str, Any] | None = None) -> SavedState:
        """Return the state for the next leader; `memories` are the encoded ones, if the caller has them."""
        if memories is None:
            memories = {name: laws.encode_memory(name, memory) for name, memory in self._memories.items()}
        outcome = self.outcome
        return SavedState(
            term=term,
            generation=self.generation,
            memories={**memories},
            sender_clocks_ms={} if self._keys.shared is None else inbox.sender_clocks(self._inbox),
            resolved={}
            if outcome is None
            else addresses_in_effect.resolved(self.declaration.upstream, outcome.table),
        )

    def resume(self, saved: SavedState) -> bool:
        """Go on from a saved state; return False if the state here is of a later tick.

        Afterwards `forgotten_laws` names the laws whose saved memory is damaged or of another edition.
        """
        if (saved.term, saved.generation) <= self._order:
            return False
        self.overtake(saved.generation)
        self._inbox = replace(self._inbox, remembered=saved.sender_clocks_ms)
        self.resolved = {**saved.resolved, **self.resolved}
        memories = {
            name: laws.decode_memory(law, saved.memories.get(name))
            for name, law in self._followed.laws.items()
        }
        self.forgotten_laws = tuple(
            law for law in memories if law in saved.memories and memories[law] is None
        )
        self._memories = {
            **self._memories,
            **{law: memory for law, memory in memories.items() if memory is not None},
        }
        return True

    def overtake(self, generation: int) -> None:
        """Number the next tables above the `generation` of a published one."""
        self._order = (self._order[0], max(self.generation, generation))

    def follow_table(self, published: WeightTable) -> None:
        """Go on from a published table: number the next ones above it, keep its addresses and reporters."""
        self.overtake(published.generation)
        self._undeclared = self._undeclared.resume(published.reporters, self.load_balancers)
        expected = self.load_balancers
        self._silent_before = frozenset(expected).difference(published.reporters or expected)
        self.resolved = {
            **self.resolved,
            **addresses_in_effect.resolved(self.declaration.upstream, published),
        }

    def announce(self, load_balancers: Collection[str]) -> None:
        """Read the reports of these load balancers too: they announced reports on this upstream."""
        # Usually there are none, in thousands of upstreams at every tick.
        if load_balancers or self._undeclared.announced or self._undeclared.beyond:
            self._undeclared = self._undeclared.announce(load_balancers, self.load_balancers)

    @property
    def faults(self) -> dict[str, Fault | str | None]:
        """Return the lasting faults of received messages, by part; None: no fault."""
        return {
            "load balancers": self._undeclared.fault,
            "pairing": upstream_faults.pairing(self._pairing.unpaired),
            "indicators": upstream_faults.indicators(self._unreported.missing),
            "addresses": self._followed.address_fault,
        }

    def keys(self) -> Sequence[str]:
        """Return the Memcached keys of all samples and reports."""
        undeclared, declaration = self._undeclared, self.declaration
        known = declaration is self._followed.declaration
        if known and not undeclared.heard_s and not undeclared.announced:
            return self._followed.message_keys
        samples = self._followed.sample_keys if known else sample_keys(self.name, declaration.upstream)
        lbs = dict.fromkeys([*self.load_balancers, *undeclared.heard_s, *undeclared.announced])
        return [*samples.values(), *(wire.traffic_key(self.name, lb) for lb in lbs)]

    def _reporting(self) -> tuple[str, ...]:
        """Return the load balancers whose reports are read, the declared ones first."""
        declared, heard_s = self._followed.load_balancers, self._undeclared.heard_s
        return tuple(dict.fromkeys([*declared, *heard_s])) if heard_s else declared

    def _present(self) -> tuple[str, ...]:
        """Return the load balancers for the table: without declared ones that were silent for a minute."""
        oldest_s = self._last_read_s - FORGOTTEN_AFTER_S
        present = {lb for lb, each in self._inbox.reports.items() if each.arrived_s >= oldest_s}
        reporting = self._reporting()
        if present.issuperset(reporting):
            return reporting
        present.update(self._undeclared.heard_s)
        if self._led_since_s >= oldest_s:
            present.update(set(self._followed.load_balancers) - self._silent_before)
        return tuple(lb for lb in reporting if lb in present)

    def refuse(self, refused: wire.Refused) -> None:
        """Count a value that was refused outside of the inbox, such as a published table."""
        self._inbox = inbox.count_refused(self._inbox, refused)

    def observe(
        self,
        values: Mapping[str, bytes] | None,
        *,
        now_s: float,
        issued_at_ms: int,
        addresses: Mapping[str, str],
    ) -> Begun:
        """Begin a tick: follow the declaration, and find the upstream's values among those from Memcached.

        values      the values by key; None: Memcached did not answer
        now_s       the receiver's monotonic clock
        addresses   the IP:port of each peer with a host name; a peer without an address is left out of
                    the table
        """
        self._follow()
        upstream = self._followed.upstream(addresses)
        declared = self._followed.columns_of(upstream)
        receipt = announced = None
        if values is None:
            self._read_since_s = None
        else:
            context = self._read_context(now_s, issued_at_ms)
            samples = list(map(values.get, self._followed.keys_of(declared)))
            reports = self._reports(values, self._reporting())
            receipt = Receipt(self._inbox, context, declared.places, samples, reports)
            if self._undeclared.announced:
                names = self._followed.load_balancers
                others = [lb for lb in self._undeclared.announced if lb not in names]
                announced = Receipt(Inbox(), context, {}, (), self._reports(values, others))
        return Begun(
            upstream=upstream,
            declared=declared,
            inbox=self._inbox,
            pairing=self._pairing,
            receipt=receipt,
            announced=announced,
        )

    def receive(self, begun: Begun, received: Inbox | None, tried: Inbox | None, *, now_s: float) -> TakenUp:
        """Return the messages of the tick, with those of undeclared load balancers.

        received   the inbox after the values of `begun.receipt`
        tried      an inbox with the reports of the announced load balancers alone
        """
        undeclared, changes = self._undeclared, list[str]()
        if received is None or begun.receipt is None:
            received = replace(begun.inbox, refusals={})
        elif undeclared.heard_s or undeclared.announced:
            undeclared, received = undeclared.after(
                received,
                tried or Inbox(),
                self._followed.load_balancers,
                now_s=now_s,
                unix_ms=begun.receipt.context.unix_ms,
            )
            changes = self._undeclared.changes(undeclared)
        # Without an answer of Memcached, the inbox still has the servers that it had before.
        samples = received.samples.aligned(begun.declared.places)
        zones, flows = upstream_zones.follow(
            self._zones, self._followed.zones, begun.upstream.peers, received, now_s=now_s, tick_s=self.tick_s
        )
        return TakenUp(
            inbox=received,
            undeclared=undeclared,
            balancer_changes=changes,
            zones=zones,
            refusals=inbox.refusal_changes(begun.inbox, received),
            snapshot=SnapshotInput(
                begun.declared,
                received if samples is received.samples else replace(received, samples=samples),
                self._pins(begun.upstream, begun.declared.pins),
                self._followed_weights(begun.upstream, zones, flows),
            ),
        )

    def keep(
        self, begun: Begun, received: TakenUp, pairing: WindowPairing, place: Place, *, now_s: float
    ) -> Observed:
        """Keep the messages of the tick and their pairing; return the input of the laws."""
        snapshot = place.batch.snapshot(place.row)
        self._inbox, self._pairing, self._zones = received.inbox, pairing, received.zones
        if begun.receipt is not None:
            self._undeclared, self.balancer_changes = received.undeclared, received.balancer_changes
        self._unreported = self._unreported.after(
            snapshot,
            are_declared=begun.upstream.indicators is not None,
            sampled=place.sampled,
        )
        new = (each.message for each in received.inbox.reports.values() if each.arrived_s == now_s)
        self.requests = self.requests.after(begun.declared.ids, new)
        return Observed(
            upstream=begun.upstream,
            due=Due(
                laws=self._followed.laws,
                memories=self._memories,
                snapshot=snapshot,
                batch=place.batch,
                row=place.row,
            ),
            refusals=received.refusals,
            ended_per_s=place.ended_per_s,
        )

    def conclude(
        self, observed: Observed, stepped: StepResult, *, now_s: float, term: int, issued_at_ms: int
    ) -> Outcome:
        """End a tick: keep the laws' memories, and return the outcome of their decisions."""
        upstream, snapshot = observed.upstream, observed.due.snapshot
        self._memories = stepped.memories
        decision = stepped.decisions[upstream.law]
        if upstream.blend is not None:
            decision = blend(decision, stepped.decisions[upstream.blend.law], upstream.blend.percent)
        if term != self._order[0]:
            self._led_since_s = now_s
        self._order = (term, self.generation + 1)
        table = self._tables.build(
            decision,
            upstream,
            term=term,
            generation=self.generation,
            issued_at_ms=issued_at_ms,
            reporters=self._present(),
            zones=None if self._zones is None else self._followed.zones,
        )
        self._carried = self._carried.after(observed.ended_per_s, self.tick_s)
        outcome = Outcome(
            table=table,
            decision=decision,
            shadows={name: stepped.decisions[name] for name in upstream.shadows},
            snapshot=snapshot,
            inbox=self._inbox,
            now_s=now_s,
            load_balancers=self._reporting(),
            undeclared=frozenset(self._undeclared.heard_s),
            led_since_s=self._led_since_s,
            read_since_s=self._read_since_s,
            carries_per_s=self._carried.per_s,
            typed_addresses=self._followed.typed,
        )
        if self._zones is not None:
            outcome = upstream_zones.decide(self._zones, outcome)
            self._zones = outcome.zoning
        return outcome

    def _follow(self) -> None:
        """Follow the declaration if it has changed; keep the memories of the laws that are still there."""
        if self.declaration is self._followed.declaration:
            return
        before = self._followed
        self._followed = FollowedDeclaration(self.name, self.declaration, self._load_balancers)
        if self._followed.zones != before.zones:
            self._zones = None
        self._memories = {law: memory for law, memory in self._memories.items() if law in self._followed.laws}

    def _read_context(self, now_s: float, unix_ms: int) -> ReadContext:
        """Note that Memcached is read now, and return the context of its values."""
        if self._read_since_s is None:
            self._read_since_s = now_s
        # Messages from the first tick, or from one after a pause, are kept but do not count as new, because
        # their age is unknown. The previous leader may have learnt from them, and a sample may be paired
        # with a report of another window. Both would move the weights at the very moment of a takeover.
        unknown = now_s - self._last_read_s > PAUSE_TICKS * self.tick_s
        last_read_s, self._last_read_s = self._last_read_s, now_s
        return ReadContext(
            self.name,
            now_s - self.tick_s if unknown else now_s,
            keys=self._keys,
            unix_ms=None if self._keys.shared is None else unix_ms,
            last_read_s=-math.inf if unknown else last_read_s,
            synchronized_s=now_s - unix_ms / 1000,
        )

    def _reports(self, values: Mapping[str, bytes], lbs: Iterable[str]) -> dict[str, bytes | None]:
        keys = self._followed.report_keys
        return {lb: values.get(keys.get(lb) or wire.traffic_key(self.name, lb)) for lb in lbs}

    def _pins(self, upstream: Upstream, pins: Floats) -> Floats:
        """Return pins in per cent, k, on the scale S of the deciding law."""
        if not pins.size:
            return NONE_GIVEN
        deciding = upstream.law if upstream.blend is None else upstream.blend.law
        total = law_total(self._followed.laws[deciding].parameters["S"], len(upstream.peers))
        scaled: Floats = pins / 100 * total
        return scaled

    def _followed_weights(self, upstream: Upstream, zones: Zoning | None, flows: Floats) -> Floats:
        """Return the weights that traffic follows, k; NaN: none yet; empty: the law's own last decision.

        Shadow laws need them. So does any law if load balancers of other zones follow other weights than
        the published ones; `flows` has the requests/s from each zone to each.
        """
        if self.outcome is None or (zones is None and len(self._followed.laws) == 1):
            return NONE_GIVEN
        table = {peer.id: float(peer.weight) for peer in self.outcome.table.peers}
        weights = np.array([table.get(peer.id, math.nan) for peer in upstream.peers], dtype=float)
        return weights if zones is None else zones.followed(weights, flows)
