"""One upstream's control cycle: its ticks, from the values of Memcached to the outcome.

Pure: no I/O, no clock. `tick_loop` reads and writes for it; `cycle_state` is what it keeps between two ticks.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from steelyard_protocol import wire

from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.laws.blend import Due, StepResult, blend
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages import inbox
from steelyard_controller.messages.inbox import Inbox, Receipt
from steelyard_controller.messages.received import ReadContext
from steelyard_controller.messages.undeclared_balancers import FORGOTTEN_AFTER_S
from steelyard_controller.tick import upstream_zones
from steelyard_controller.tick.cycle_state import CycleState
from steelyard_controller.tick.followed_declaration import FollowedDeclaration, sample_keys
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.snapshot_builder import NONE_GIVEN, Place, SnapshotInput
from steelyard_controller.tick.stages import Begun, Observed, TakenUp
from steelyard_controller.tick.window_pairing import WindowPairing

# After a longer pause than this, the messages in Memcached may be of any age.
PAUSE_TICKS = 2.5


class Cycle(CycleState):
    """The ticks of one upstream; with a shared key, it accepts signed values only."""

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
        new = [each.message for each in received.inbox.reports.values() if each.arrived_s == now_s]
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
