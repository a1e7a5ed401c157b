"""The IP addresses, at each tick, of the peers with host names; and the faults of the names.

I/O by `resolver`. No tick waits for a look-up: names are resolved in the
background, and each keeps its last address. A new leader begins with the
addresses of the last table and of the saved state. So no server goes out of
service because its name cannot be resolved just then. A peer with a new name
keeps its old address until the first answer. An upstream without any table yet
is held back for a moment, because its first table would lack all servers.
"""

import asyncio
from collections.abc import Callable, Mapping

from steelyard_controller.dns.resolver import Resolver
from steelyard_controller.fault_causes import Fault
from steelyard_controller.faults import Faults
from steelyard_controller.tick.cycle import Cycle

# The longest delay of an upstream's first table for its names: the time that one look-up may take.
FIRST_TABLE_S = 2.0

# A resolver on the same network answers within milliseconds, so the first table need not wait for a tick.
FIRST_ANSWER_S = 0.1


class PeerAddresses:
    """The addresses of all upstreams' peers; `faults_of` returns an upstream's faults."""

    def __init__(
        self,
        resolver: Resolver,
        *,
        faults_of: Callable[[str], Faults],
        clock: Callable[[], float],
    ) -> None:
        self._resolver = resolver
        self._faults_of = faults_of
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None
        self._noted: dict[str, set[str]] = {}
        self._held: dict[str, float] = {}

    async def addresses(self, cycles: Mapping[str, Cycle]) -> dict[str, dict[str, str]]:
        """Return the IP:port by upstream and peer, for the upstreams with host names.

        If such an upstream is missing, it has no address yet: its first table is not due.
        """
        named = {name: cycle for name, cycle in cycles.items() if cycle.has_names}
        self._held = {name: since_s for name, since_s in self._held.items() if name in named}
        for name in self._noted.keys() - named.keys():
            if name in cycles:
                self._note(name, {})
            del self._noted[name]
        if not named:
            return {}
        for cycle in named.values():
            self._resolver.remember(cycle.resolved)
        if self._asking is None or self._asking.done():
            every = [peer for cycle in named.values() for peer in cycle.declaration.upstream.peers]
            self._asking = asyncio.create_task(self._resolver.refresh(self._clock(), every), name="names")
        if any(self._is_held_back(name, cycle) for name, cycle in named.items()):
            await asyncio.wait([self._asking], timeout=FIRST_ANSWER_S)
        return {
            name: self._addresses(name, cycle)
            for name, cycle in named.items()
            if not self._is_held_back(name, cycle)
        }

    def _is_held_back(self, name: str, cycle: Cycle) -> bool:
        since_s = self._held.setdefault(name, self._clock())
        return (
            cycle.generation == 0
            and self._clock() - since_s < FIRST_TABLE_S
            and bool(self._resolver.unanswered(cycle.declaration.upstream.peers))
        )

    def _addresses(self, name: str, cycle: Cycle) -> dict[str, str]:
        peers = cycle.declaration.upstream.peers
        known = self._resolver.addresses(peers)
        self._note(name, known.faults)
        addresses = {peer: address for peer, address in known.by_peer.items() if address is not None}
        last = {} if cycle.outcome is None else {peer.id: peer.address for peer in cycle.outcome.table.peers}
        taken = set(addresses.values())
        for peer in self._resolver.unanswered(peers):
            if peer.id in last and last[peer.id] not in taken:
                addresses[peer.id] = last[peer.id]
        return addresses

    async def close(self) -> None:
        """Cancel the running look-ups."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._resolver.close()

    def _note(self, upstream: str, new_faults: Mapping[str, str]) -> None:
        faults, before = self._faults_of(upstream), self._noted.get(upstream, set())
        for part in dict.fromkeys([*before, *new_faults]):
            fault = new_faults.get(part)
            faults.note(part, None if fault is None else Fault(fault, kind="host names"))
        self._noted[upstream] = set(new_faults)
