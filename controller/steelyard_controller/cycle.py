"""One upstream from tick to tick: what has arrived, what the laws remember, what was decided last.

Pure: no I/O, no clock. `loop` reads and writes for it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from steelyard_agent import wire

from steelyard_controller import laws
from steelyard_controller.assemble import assemble
from steelyard_controller.blend import blend, step_all
from steelyard_controller.cpu_time import CpuTime
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.declared.upstream import Upstream
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.outcome import Outcome
from steelyard_controller.pipeline import intake as intakes
from steelyard_controller.pipeline.intake import Intake, Told
from steelyard_controller.snapshot import Floats
from steelyard_controller.state.saved import Saved
from steelyard_controller.tabulate import tabulate

# After a longer pause than this, what is found may be of any age.
PAUSE_TICKS = 2.5


class Cycle:
    """The memory of one upstream between ticks; with a `key` only signed values are believed."""

    def __init__(
        self,
        name: str,
        declaration: Declaration,
        *,
        tick_s: float,
        key: bytes | None = None,
    ) -> None:
        self.name = name
        self.outcome: Outcome | None = None
        self.overruns = 0
        self.used = CpuTime()
        self._tick_s = tick_s
        self._key = key
        self._declaration = declaration
        self._upstream = declaration.upstream
        self._laws = self._upstream.made_laws()
        self._named = _named(self._upstream)
        self._intake = Intake()
        self._order = (0, 0)
        self._looked_s = -math.inf
        self._memories: Mapping[str, laws.Memory] = {}

    @property
    def declaration(self) -> Declaration:
        """Return what is declared; the tick after a change follows it."""
        return self._declaration

    @declaration.setter
    def declaration(self, declaration: Declaration) -> None:
        # One assignment: a tick in another thread sees the one or the other.
        self._declaration = declaration

    @property
    def has_names(self) -> bool:
        """Tell whether any peer is declared by a name."""
        return any(not peer.has_ip for peer in self._declaration.upstream.peers)

    @property
    def remembered(self) -> tuple[str, ...]:
        """Return the laws that go on from a saved memory."""
        return tuple(self._memories)

    @property
    def generation(self) -> int:
        """Return the generation of the last table."""
        return self._order[1]

    def saved(self, *, term: int) -> Saved:
        """Return what a successor needs."""
        memories = {name: laws.encode_memory(name, memory) for name, memory in self._memories.items()}
        told = intakes.told(self._intake) if self._key is not None else Told()
        told_ms = {"samples": dict(told.samples), "reports": dict(told.reports)}
        return Saved(
            term=term,
            generation=self.generation,
            memories=memories,
            told_ms={kind: found for kind, found in told_ms.items() if found},
        )

    def resume(self, saved: Saved) -> bool:
        """Take up what was remembered; False where what is remembered here is of a later tick."""
        if (saved.term, saved.generation) <= self._order:
            return False
        self.overtake(saved.generation)
        remembered = Told(samples=saved.told_ms.get("samples", {}), reports=saved.told_ms.get("reports", {}))
        self._intake = replace(self._intake, remembered=remembered)
        found = {law: laws.decode_memory(made, saved.memories.get(law)) for law, made in self._laws.items()}
        self._memories = {
            **self._memories,
            **{law: memory for law, memory in found.items() if memory is not None},
        }
        return True

    def overtake(self, generation: int) -> None:
        """Go on above a generation that was seen elsewhere."""
        self._order = (self._order[0], max(self.generation, generation))

    def keys(self) -> list[str]:
        """Return the Memcached keys of all samples and reports."""
        upstream = self._declaration.upstream
        return [
            *(wire.sample_key(self.name, peer.id) for peer in upstream.peers),
            *(wire.traffic_key(self.name, lb) for lb in upstream.load_balancers),
        ]

    def refuse(self, refused: wire.Refused) -> None:
        """Count a value that was refused elsewhere."""
        self._intake = intakes.count(self._intake, refused)

    def advance(
        self,
        found: Mapping[str, bytes] | None,
        *,
        now_s: float,
        term: int,
        issued_at_ms: int,
        addresses: Mapping[str, str],
    ) -> tuple[Outcome, list[str]]:
        """Do one tick: return its outcome, and a line for each source that began or ceased to be refused.

        `found` is what Memcached held, None when it did not answer; `now_s` is the receiver's monotonic
        clock; `addresses` has the IP:port of each peer that is known by a name. A peer without an
        address is left out.
        """
        upstream = self._follow(addresses)
        before = self._intake
        self._intake = self._took(upstream, found, now_s, issued_at_ms)
        snapshot = assemble(self._intake, upstream.peers, now_s=now_s, tick_s=self._tick_s)
        snapshot = replace(snapshot, pinned=self._pins(upstream), published=self._followed(upstream))
        stepped = step_all(self._laws, self._memories, snapshot)
        self._memories = stepped.memories
        decision = stepped.decisions[upstream.law]
        if upstream.blend is not None:
            decision = blend(decision, stepped.decisions[upstream.blend.law], upstream.blend.percent)
        self._order = (term, self.generation + 1)
        table = tabulate(
            decision,
            upstream,
            name=self.name,
            term=term,
            generation=self.generation,
            issued_at_ms=issued_at_ms,
        )
        outcome = Outcome(
            table=table,
            decision=decision,
            shadows={name: stepped.decisions[name] for name in upstream.shadows},
            snapshot=snapshot,
            intake=self._intake,
            now_s=now_s,
        )
        return outcome, intakes.changes(before, self._intake)

    def _follow(self, addresses: Mapping[str, str]) -> Upstream:
        declared = self._declaration.upstream
        if declared is not self._upstream:
            self._upstream = declared
            self._laws = declared.made_laws()
            self._memories = {law: memory for law, memory in self._memories.items() if law in self._laws}
            self._named = _named(declared)
        if not self._named:
            return declared
        peers = [
            peer.model_copy(update={"address": addresses[peer.id]}) if peer.id in self._named else peer
            for peer in declared.peers
            if peer.id not in self._named or peer.id in addresses
        ]
        return declared.model_copy(update={"peers": peers})

    def _took(
        self, upstream: Upstream, found: Mapping[str, bytes] | None, now_s: float, unix_ms: int
    ) -> Intake:
        if found is None:
            return replace(self._intake, refusals={})
        # What is found at the first look, or after a pause, is kept, and counts as new no more: its age is
        # not known, and to pair a sample with another window's report, or to learn from both again what the
        # controller before learnt from them, would move the weights at the very moment of a take-over.
        unknown = now_s - self._looked_s > PAUSE_TICKS * self._tick_s
        self._looked_s = now_s
        return intakes.take(
            self._intake,
            now_s - self._tick_s if unknown else now_s,
            upstream=self.name,
            samples={peer.id: found.get(wire.sample_key(self.name, peer.id)) for peer in upstream.peers},
            reports={lb: found.get(wire.traffic_key(self.name, lb)) for lb in upstream.load_balancers},
            key=self._key,
            unix_ms=None if self._key is None else unix_ms,
        )

    def _pins(self, upstream: Upstream) -> Floats:
        """Return the pins, k, on the scale S of the law that decides; NaN where there is none."""
        deciding = upstream.law if upstream.blend is None else upstream.blend.law
        total = law_total(self._laws[deciding].parameters["S"], len(upstream.peers))
        pins = [math.nan if peer.pin is None else peer.pin / 100 * total for peer in upstream.peers]
        return np.array(pins, dtype=float)

    def _followed(self, upstream: Upstream) -> Floats:
        """Return the weights that traffic follows, k, for the laws that are not live; NaN: nothing yet."""
        if self.outcome is None or len(self._laws) == 1:
            return np.empty(0)
        table = {peer.id: float(peer.weight) for peer in self.outcome.table.peers}
        return np.array([table.get(peer.id, math.nan) for peer in upstream.peers], dtype=float)


def _named(upstream: Upstream) -> frozenset[str]:
    return frozenset(peer.id for peer in upstream.peers if not peer.has_ip)
