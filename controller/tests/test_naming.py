"""Peers declared by name: what a tick gets, and what it waits for."""

import asyncio
from collections.abc import Sequence

from steelyard_controller.cycle import Cycle
from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.declared.upstream import Peer, Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.names.naming import Naming
from steelyard_controller.names.resolve import Resolver


class Names:
    """A resolver's answers; a name that is not in it cannot be resolved."""

    def __init__(self, **known: str) -> None:
        self.known = known
        self.asked = 0

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked += 1
        if name not in self.known:
            raise OSError("no such name")
        return [self.known[name]]


def _cycles(*addresses: str) -> dict[str, Cycle]:
    peers = [Peer(id=f"server-{row}", address=address) for row, address in enumerate(addresses)]
    return {"web": Cycle("web", Declaration(upstream=Upstream(peers=peers)), tick_s=1.0)}


def _naming(names: Names, faults: Faults, now_s: list[float]) -> Naming:
    return Naming(Resolver(names), faults_of=lambda _: faults, clock=lambda: now_s[0])


def test_the_first_tick_waits_for_names() -> None:
    async def session() -> None:
        naming = _naming(Names(alpha="10.0.0.1"), Faults(), [0.0])
        assert await naming.addresses(_cycles("alpha:80", "10.0.0.9:80")) == {
            "web": {"server-0": "10.0.0.1:80", "server-1": "10.0.0.9:80"}
        }
        await naming.close()

    asyncio.run(session())


def test_an_upstream_of_ip_addresses_asks_nobody() -> None:
    async def session() -> None:
        names = Names()
        assert await _naming(names, Faults(), [0.0]).addresses(_cycles("10.0.0.9:80")) == {}
        assert names.asked == 0

    asyncio.run(session())


def test_a_name_that_cannot_be_resolved_leaves_its_peer_out_and_is_a_fault_until_it_can() -> None:
    async def session() -> None:
        names, faults, now_s = Names(alpha="10.0.0.1"), Faults(), [0.0]
        naming, cycles = _naming(names, faults, now_s), _cycles("alpha:80", "beta:80")
        assert await naming.addresses(cycles) == {"web": {"server-0": "10.0.0.1:80"}}
        assert list(faults.now) == ["name beta"]
        names.known["beta"] = "10.0.0.2"
        now_s[0] = 60.0
        while "server-1" not in (await naming.addresses(cycles))["web"]:
            await asyncio.sleep(0)
        assert not faults.now
        await naming.close()

    asyncio.run(session())


def test_a_later_tick_waits_for_nobody() -> None:
    async def session() -> None:
        names, now_s = Names(alpha="10.0.0.1"), [0.0]
        naming, cycles = _naming(names, Faults(), now_s), _cycles("alpha:80")
        await naming.addresses(cycles)
        names.known["alpha"] = "10.0.0.7"
        now_s[0] = 60.0
        assert await naming.addresses(cycles) == {"web": {"server-0": "10.0.0.1:80"}}
        await naming.close()

    asyncio.run(session())
