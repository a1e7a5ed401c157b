"""Peers with host names: a tick's addresses, and its waits."""

import asyncio
from collections.abc import Sequence

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.dns import peer_addresses
from steelyard_controller.dns.peer_addresses import FIRST_TABLE_S, PeerAddresses
from steelyard_controller.dns.resolver import Resolver
from steelyard_controller.faults import Faults
from steelyard_controller.tick.cycle import Cycle

from ..examples import advance


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local answer may take over 0.1 s on a busy machine."""
    monkeypatch.setattr(peer_addresses, "FIRST_ANSWER_S", 1.5)


class Names:
    """A resolver's answers; other names cannot be resolved."""

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


def _naming(names: Names, faults: Faults, now_s: list[float]) -> PeerAddresses:
    return PeerAddresses(Resolver(names), faults_of=lambda _: faults, clock=lambda: now_s[0])


def test_the_first_table_has_the_names_that_are_answered_at_once() -> None:
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


def test_an_upstream_that_has_no_names_any_more_has_no_faults_of_names() -> None:
    async def session() -> None:
        faults = Faults()
        naming = _naming(Names(), faults, [0.0])
        await naming.addresses(_cycles("beta:80"))
        assert list(faults.now) == ["name beta"]
        assert await naming.addresses(_cycles("10.0.0.9:80")) == {}
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


class Hanging(Names):
    """A resolver that never answers about unknown names."""

    async def __call__(self, name: str) -> Sequence[str]:
        if name not in self.known:
            await asyncio.Event().wait()
        return await super().__call__(name)


def test_an_upstream_that_never_had_a_table_is_held_back_for_its_names_and_no_other_is() -> None:
    async def session() -> None:
        now_s = [0.0]
        naming = _naming(Hanging(alpha="10.0.0.1"), Faults(), now_s)
        cycles = {**_cycles("hangs:80", "10.0.0.9:80"), "api": _cycles("alpha:80")["web"]}
        assert await naming.addresses(cycles) == {"api": {"server-0": "10.0.0.1:80"}}
        now_s[0] = FIRST_TABLE_S
        assert (await naming.addresses(cycles))["web"] == {"server-1": "10.0.0.9:80"}
        await naming.close()

    asyncio.run(session())


def test_many_names_that_hang_delay_no_tick_of_an_upstream_that_has_a_table() -> None:
    async def session() -> None:
        faults = Faults()
        naming = _naming(Hanging(alpha="10.0.0.1"), faults, [0.0])
        cycles = _cycles("alpha:80")
        await naming.addresses(cycles)
        cycles["web"].overtake(7)
        more = [Peer(id=f"new-{row}", address=f"hangs-{row}:80") for row in range(40)]
        upstream = cycles["web"].declaration.upstream
        cycles["web"].declaration = Declaration(upstream=Upstream(peers=[*upstream.peers, *more]))
        # Nothing in it lets time pass: a tick that waited would hang here.
        asked = asyncio.ensure_future(naming.addresses(cycles))
        await asyncio.sleep(0)
        assert asked.done()
        assert asked.result() == {"web": {"server-0": "10.0.0.1:80"}}
        assert str(faults.now["name hangs-3"]) == "is not resolved yet"
        await naming.close()

    asyncio.run(session())


def test_a_peer_whose_new_name_has_no_answer_yet_keeps_the_address_that_it_had() -> None:
    async def session() -> None:
        naming = _naming(Hanging(alpha="10.0.0.1"), Faults(), [0.0])
        cycles = _cycles("alpha:80", "10.0.0.9:80")
        web = cycles["web"]
        first = await naming.addresses(cycles)
        web.outcome, _ = advance(web, {}, now_s=0.0, term=1, issued_at_ms=1, addresses=first["web"])
        renamed = _cycles("hangs:80", "10.0.0.9:80")["web"].declaration
        web.declaration = renamed
        assert await naming.addresses(cycles) == {
            "web": {"server-0": "10.0.0.1:80", "server-1": "10.0.0.9:80"}
        }
        await naming.close()

    asyncio.run(session())
