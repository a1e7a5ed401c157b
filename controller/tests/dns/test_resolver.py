"""Names resolved beside the ticks: due ones, late answers, failures, and the log."""

import asyncio
import logging
from collections.abc import Sequence

import pytest
from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.dns import resolved_names
from steelyard_controller.dns.resolver import MOST_AT_ONCE, Resolver, ask_system

PATIENT_S = 20.0
UNKNOWN = OSError(-2, "Name or service not known")


def peer(id: str, address: str) -> Peer:
    return Peer(id=id, address=address)


WEB = [peer("server-1", "web:80")]


class Names:
    """A resolver: addresses or an error by name; a name without either is answered when it gets one."""

    def __init__(self, **answers: Sequence[str] | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.most = 0
        self._waiting = 0

    async def __call__(self, name: str) -> Sequence[str]:
        self.asked.append(name)
        self._waiting += 1
        self.most = max(self.most, self._waiting)
        while name not in self.answers:
            await asyncio.sleep(0.001)
        self._waiting -= 1
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def until_known(resolver: Resolver, peers: Sequence[Peer]) -> None:
    async with asyncio.timeout(PATIENT_S):
        while None in resolver.addresses(peers).by_peer.values() or resolver.addresses(peers).faults:
            await asyncio.sleep(0.001)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records]


def test_a_peer_is_left_out_until_its_name_is_resolved() -> None:
    async def session() -> None:
        resolver = Resolver(Names(web=["10.0.0.2"]))
        peers = [*WEB, peer("server-2", "10.0.0.3:80")]
        assert resolver.addresses(peers).by_peer == {"server-1": None, "server-2": "10.0.0.3:80"}
        assert resolver.addresses(peers).faults == {"name web": resolved_names.NOT_YET}
        await resolver.refresh(0.0, peers)
        assert resolver.addresses(peers).by_peer == {"server-1": "10.0.0.2:80", "server-2": "10.0.0.3:80"}
        assert resolver.addresses(peers).faults == {}

    asyncio.run(session())


def test_ipv6_answers_come_out_in_brackets() -> None:
    async def session() -> None:
        resolver = Resolver(Names(web=["fd00::2"]))
        await resolver.refresh(0.0, WEB)
        assert resolver.addresses(WEB).by_peer == {"server-1": "[fd00::2]:80"}

    asyncio.run(session())


def test_a_name_is_asked_for_once_for_all_its_peers_and_again_when_its_time_is_up() -> None:
    async def session() -> None:
        names = Names(web=["10.0.0.2"])
        resolver = Resolver(names, again_s=30.0)
        peers = [*WEB, peer("server-2", "web:81")]
        for now_s in (0.0, 1.0, 29.9):
            await resolver.refresh(now_s, peers)
        assert names.asked == ["web"]
        names.answers["web"] = ["10.0.0.4"]
        await resolver.refresh(30.0, peers)
        assert names.asked == ["web", "web"]
        assert resolver.addresses(peers).by_peer == {"server-1": "10.0.0.4:80", "server-2": "10.0.0.4:81"}

    asyncio.run(session())


def test_a_name_that_stops_resolving_keeps_its_address_and_has_a_fault() -> None:
    async def session() -> None:
        names = Names(web=["10.0.0.2"])
        resolver = Resolver(names)
        await resolver.refresh(0.0, WEB)
        names.answers["web"] = UNKNOWN
        for now_s in (30.0, 40.0, 50.0):
            await resolver.refresh(now_s, WEB)
            assert resolver.addresses(WEB).by_peer == {"server-1": "10.0.0.2:80"}
        fault = "cannot be resolved (Name or service not known): its last address is kept"
        assert resolver.addresses(WEB).faults == {"name web": fault}
        names.answers["web"] = ["10.0.0.2"]
        await resolver.refresh(60.0, WEB)
        assert resolver.addresses(WEB).faults == {}

    asyncio.run(session())


def test_a_changed_address_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def session() -> None:
        names = Names(web=["10.0.0.2"])
        resolver = Resolver(names)
        await resolver.refresh(0.0, WEB)
        names.answers["web"] = ["10.0.0.3"]
        await resolver.refresh(30.0, WEB)
        assert said(caplog) == ["name web is now 10.0.0.3, previously 10.0.0.2"]

    asyncio.run(session())


def test_a_late_answer_is_a_fault_until_it_comes_and_is_used_then() -> None:
    async def session() -> None:
        names = Names(api=["10.0.0.9"])
        peers = [*WEB, peer("server-2", "api:80")]
        resolver = Resolver(names, timeout_s=0.01)
        await resolver.refresh(0.0, peers)
        assert resolver.addresses(peers).by_peer == {"server-1": None, "server-2": "10.0.0.9:80"}
        async with asyncio.timeout(PATIENT_S):
            while "no answer within 0.01 s" not in resolver.addresses(peers).faults["name web"]:
                await asyncio.sleep(0.001)
        await resolver.refresh(100.0, peers)
        assert names.asked.count("web") == 1  # It is still being asked.
        names.answers["web"] = ["10.0.0.2"]
        await until_known(resolver, peers)
        assert resolver.addresses(peers).by_peer == {"server-1": "10.0.0.2:80", "server-2": "10.0.0.9:80"}

    asyncio.run(session())


def test_only_so_many_names_are_asked_for_at_once_and_all_are_in_the_end() -> None:
    async def session() -> None:
        peers = [peer(f"server-{number}", f"web-{number}:80") for number in range(3 * MOST_AT_ONCE)]
        names = Names()
        resolver = Resolver(names, timeout_s=0.01)
        await resolver.refresh(0.0, peers)
        assert len(names.asked) == MOST_AT_ONCE
        names.answers = {f"web-{number}": [f"10.0.1.{number}"] for number in range(3 * MOST_AT_ONCE)}
        await until_known(resolver, peers)
        assert names.most == MOST_AT_ONCE
        assert sorted(names.asked) == sorted(names.answers)

    asyncio.run(session())


def test_a_name_that_nobody_declares_is_forgotten_after_a_while() -> None:
    async def session() -> None:
        resolver = Resolver(Names(web=["10.0.0.2"]), again_s=30.0)
        await resolver.refresh(0.0, WEB)
        await resolver.refresh(300.0, [])
        assert resolver.addresses(WEB).by_peer == {"server-1": "10.0.0.2:80"}
        await resolver.refresh(300.1, [])
        assert resolver.addresses(WEB).by_peer == {"server-1": None}

    asyncio.run(session())


def test_a_name_that_is_declared_is_kept_though_the_process_was_suspended() -> None:
    async def session() -> None:
        names = Names(web=["10.0.0.2"])
        resolver = Resolver(names)
        await resolver.refresh(0.0, WEB)
        names.answers["web"] = UNKNOWN
        await resolver.refresh(1e6, WEB)
        assert resolver.addresses(WEB).by_peer == {"server-1": "10.0.0.2:80"}

    asyncio.run(session())


def test_closing_waits_for_no_answer() -> None:
    async def session() -> None:
        resolver = Resolver(Names(), timeout_s=0.01)
        await resolver.refresh(0.0, WEB)
        await resolver.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(session())


@pytest.mark.integration
def test_the_system_knows_itself_and_says_what_it_does_not_know() -> None:
    async def session() -> None:
        peers = [peer("server-1", "localhost:80"), peer("server-2", "no-such-host.invalid:80")]
        resolver = Resolver(ask_system, timeout_s=PATIENT_S)
        await resolver.refresh(0.0, peers)
        assert resolver.addresses(peers).by_peer == {"server-1": "127.0.0.1:80", "server-2": None}
        assert resolver.addresses(peers).faults.keys() == {"name no-such-host.invalid"}
        assert (
            resolver.addresses(peers).faults["name no-such-host.invalid"].startswith("cannot be resolved (")
        )
        assert len(await ask_system("localhost")) == len(set(await ask_system("localhost")))

    asyncio.run(session())
