"""A slow store: each upstream's state is saved in its turn all the same."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.faults import Faults
from steelyard_controller.store.interface import Save, Unavailable
from steelyard_controller.store.lease import Lease
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.tick import state_saver
from steelyard_controller.tick.cycle import Cycle
from steelyard_controller.tick.state_saver import StateSaver

from ..examples import advance

LEASE = Lease(holder="a", boot="1", url="http://a", term=1)
WEB = Declaration(upstream=Upstream(peers=[Peer(id="a", address="10.0.0.1:80")]))


class Slow(MemoryStore):
    """Takes so long that a tick has time for one upstream; refuses the `away` ones."""

    def __init__(self, away: Sequence[str] = ()) -> None:
        super().__init__()
        self.away = away
        self.saves: list[str] = []
        self.requests = self.whole = 0

    async def keep(self, _: Lease, saves: Mapping[str, Save]) -> Mapping[str, Unavailable]:
        if saves.keys() <= {*self.away}:
            raise Unavailable("timed out")
        taken = [upstream for upstream in saves if upstream not in self.away]
        self.saves += taken
        self.requests += 1
        self.whole += sum(saves[each].state is not None and saves[each].moment != b"" for each in taken)
        await asyncio.sleep(0.002)
        return {upstream: Unavailable("timed out") for upstream in saves if upstream in self.away}


def ticks(
    store: Slow, count: int, monkeypatch: pytest.MonkeyPatch, at_once: int = 1, **faulty: str
) -> Faults:
    """Save the outcomes of five upstreams at each of `count` ticks; `faulty` are earlier faults."""
    monkeypatch.setattr(state_saver, "SAVE_S", 0.001)
    monkeypatch.setattr(state_saver, "PEERS_AT_ONCE", at_once)
    faults = Faults()
    for part, fault in faulty.items():
        faults.note(part, fault)
    saver = StateSaver(store, moments=60, faults=faults, faults_of=lambda _: Faults())
    cycles = [Cycle(name, WEB, tick_s=1.0) for name in "abcde"]

    async def run() -> None:
        for tick in range(count):
            advanced = [
                advance(cycle, {}, now_s=float(tick), term=1, issued_at_ms=tick, addresses={})
                for cycle in cycles
            ]
            await saver.save_due(
                [(cycle, outcome) for cycle, (outcome, _) in zip(cycles, advanced, strict=True)], LEASE
            )

    asyncio.run(run())
    return faults


def test_a_slow_store_is_a_fault_and_every_upstream_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Slow()
    faults = ticks(store, 10, monkeypatch)
    assert "the store is slow" in str(faults.now["saving"])
    assert store.saves == [*"abcde"] * 2
    assert store.whole == len(store.saves)  # State and moment in one request.


def test_one_that_the_store_does_not_take_keeps_nobody_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Slow(away="a")
    ticks(store, 20, monkeypatch)
    assert {*store.saves} == {*"bcde"}


def test_a_store_that_is_away_is_the_elections_fault_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ticks(Slow(away="abcde"), 2, monkeypatch, state="away").lines() == ("state: away",)


def test_a_store_that_was_slow_and_is_away_is_one_fault() -> None:
    faults = Faults()
    saver = StateSaver(Slow(), moments=60, faults=faults, faults_of=lambda _: Faults())
    faults.note("saving", "the store is slow")
    saver.rest()
    assert faults.lines() == ("saving: the store is slow",)
    faults.note("state", "away")
    saver.rest()
    assert faults.lines() == ("state: away",)


def test_several_are_saved_in_one_request_and_one_that_fails_stops_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Slow(away="b")
    faults = ticks(store, 1, monkeypatch, at_once=5)
    assert (store.saves, store.requests) == ([*"acde"], 1)
    assert str(faults.now["saving"]) == "timed out"
