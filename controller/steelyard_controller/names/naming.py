"""The addresses of the peers that were declared by name, for each tick, and what is wrong with them.

I/O by `resolve`. A tick waits for a name only when it was never asked for, at
the start and after a change; else it goes by what is known, and what is due is
asked for beside it. A table without a server whose name just was not asked for
yet would take that server out of service for a tick.
"""

import asyncio
from collections.abc import Callable, Mapping

from steelyard_controller.cycle import Cycle
from steelyard_controller.faults import Faults
from steelyard_controller.names.resolve import Resolver


class Naming:
    """Resolves for all upstreams; `faults_of` gives the faults of one, `clock` is the ticks'."""

    def __init__(
        self, resolver: Resolver, *, faults_of: Callable[[str], Faults], clock: Callable[[], float]
    ) -> None:
        self._resolver = resolver
        self._faults_of = faults_of
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None
        self._told: dict[str, set[str]] = {}

    async def addresses(self, cycles: Mapping[str, Cycle]) -> dict[str, dict[str, str]]:
        """Return the IP:port of the peers that have one, of each upstream that has names."""
        named = {name: cycle.declaration.upstream.peers for name, cycle in cycles.items() if cycle.has_names}
        if not named:
            return {}
        every = [peer for peers in named.values() for peer in peers]
        if self._resolver.has_new(every):
            await self._resolver.refresh(self._clock(), every)
        elif self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._resolver.refresh(self._clock(), every), name="names")
        found = {}
        for name, peers in named.items():
            self._tell(name, self._resolver.faults(peers))
            known = self._resolver.known(peers)
            found[name] = {peer: address for peer, address in known.items() if address is not None}
        return found

    async def close(self) -> None:
        """Wait for no answer any more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._resolver.close()

    def _tell(self, upstream: str, wrong: Mapping[str, str]) -> None:
        faults, before = self._faults_of(upstream), self._told.get(upstream, set())
        for part in before - set(wrong):
            faults.note(part, None)
        for part, fault in wrong.items():
            faults.note(part, fault)
        self._told[upstream] = set(wrong)
