"""The state of one upstream between two ticks, and its saved form for the next leader.

Pure: no I/O, no clock.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller import laws
from steelyard_controller.declarations import addresses_in_effect
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import LOAD_BALANCERS
from steelyard_controller.fault_causes import Fault
from steelyard_controller.laws.headroom import Carried
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages import inbox
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.messages.received import NO_KEYS
from steelyard_controller.messages.undeclared_balancers import UndeclaredBalancers
from steelyard_controller.store.saved_state import SavedState
from steelyard_controller.tick import upstream_faults
from steelyard_controller.tick.cpu_time import CpuTime
from steelyard_controller.tick.followed_declaration import FollowedDeclaration, load_balancers_of
from steelyard_controller.tick.outcome import Outcome
from steelyard_controller.tick.request_counts import RequestCounts
from steelyard_controller.tick.table_builder import TableBuilder
from steelyard_controller.tick.unreported_indicators import UnreportedIndicators
from steelyard_controller.tick.window_pairing import WindowPairing

NO_FAULTS: Mapping[str, Fault | str | None] = MappingProxyType(
    dict.fromkeys(("load balancers", "pairing", "indicators", "addresses"))
)
"""The faults of an upstream without any."""


class CycleState:
    """The state of one upstream between ticks."""

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
            if outcome is None or not self.has_names
            else addresses_in_effect.resolved(self.declaration.upstream, outcome.table),
        )

    def resume(self, saved: SavedState, memories: Mapping[str, laws.Memory | None] | None = None) -> bool:
        """Go on from a saved state; return False if the state here is of a later tick.

        `memories` are the state's decoded ones, if the caller has them.

        Afterwards `forgotten_laws` names the laws whose saved memory is damaged or of another edition.
        """
        if (saved.term, saved.generation) <= self._order:
            return False
        self.overtake(saved.generation)
        self._inbox = replace(self._inbox, remembered=saved.sender_clocks_ms)
        self.resolved = {**saved.resolved, **self.resolved}
        if memories is None:
            memories = decoded_memories([(self, saved)])[0]
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
    def faults(self) -> Mapping[str, Fault | str | None]:
        """Return the lasting faults of received messages, by part; None: no fault."""
        address_fault = self._followed.address_fault
        if not (self._undeclared.beyond or self._pairing.counts or self._unreported.ticks or address_fault):
            return NO_FAULTS  # The usual case, for thousands of upstreams at every tick.
        return {
            "load balancers": self._undeclared.fault,
            "pairing": upstream_faults.pairing(self._pairing.unpaired),
            "indicators": upstream_faults.indicators(self._unreported.missing),
            "addresses": address_fault,
        }

    @property
    def followed_laws(self) -> Mapping[str, laws.Law]:
        """Return the laws that step, by name."""
        return self._followed.laws


def decoded_memories(
    saved: Sequence[tuple[CycleState, SavedState]],
) -> list[dict[str, laws.Memory | None]]:
    """Return for each upstream the memories of its laws in its saved state; None for one that is damaged.

    Those of many upstreams take less than half of the time together.
    """
    decoded = iter(
        laws.decode_memories(
            [
                (law, state.memories.get(name))
                for cycle, state in saved
                for name, law in cycle.followed_laws.items()
            ]
        )
    )
    return [{name: next(decoded) for name in cycle.followed_laws} for cycle, _ in saved]
