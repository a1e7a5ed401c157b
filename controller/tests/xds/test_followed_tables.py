"""The tables for Envoys, and the times of their updates."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.xds.assignments import assignment
from steelyard_controller.xds.followed_tables import NEAR_ENOUGH_S, FollowedTables
from steelyard_protocol.weight_table import WeightTable

from testing.waiting import PATIENCE_S

from .tables import peer, table


@dataclass
class Outcome:
    """A tick's result."""

    table: WeightTable


@dataclass
class View:
    """An upstream."""

    outcome: Outcome | None


@dataclass
class Leader:
    """A controller that leads; its Memcached is unreachable."""

    role: str = "leader"
    tick_s: float = 1.0
    views: dict[str, View] = field(default_factory=dict)
    after_ticks: list[Callable[[], None]] = field(default_factory=list)
    now_s: float = 0.0

    def tick(self, *tables: WeightTable) -> None:
        """Publish these and no others."""
        self.views = {each.upstream: View(Outcome(each)) for each in tables}
        for call in self.after_ticks:
            call()

    def after_tick(self, call: Callable[[], None]) -> None:
        self.after_ticks.append(call)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


def _session(steps: Callable[[Leader, FollowedTables], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        leader = Leader()
        followed = FollowedTables(
            leader,  # type: ignore[arg-type]
            memcached="127.0.0.1:1",
            keys=Keyring(),
            wanted=lambda: {"web", "later", "no name!"},
            clock=lambda: leader.now_s,
        )
        following = asyncio.create_task(followed.run())
        try:
            await steps(leader, followed)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            followed.close()

    asyncio.run(run())


def test_weights_near_those_that_were_sent_wait_and_others_and_states_do_not() -> None:
    async def steps(leader: Leader, followed: FollowedTables) -> None:
        def made(generation: int, weight: int, state: Any = "up") -> WeightTable:
            return table(peer("a", weight=weight), peer("b", weight=100, state=state), generation=generation)

        async def sent(each: WeightTable) -> None:
            leader.tick(each)
            await _until(lambda: followed.assignments.get("web") == assignment(each))

        async def left(each: WeightTable) -> None:
            before = followed.assignments["web"]
            leader.tick(each)
            await _until(lambda: followed.tables["web"] is each)
            await asyncio.sleep(0.05)
            assert followed.assignments["web"] is before

        await sent(made(1, 100))
        await left(made(2, 105))
        await sent(made(3, 106))
        await left(made(4, 103))
        leader.now_s += NEAR_ENOUGH_S
        await sent(made(5, 103))
        await sent(made(6, 103, "drain"))

    _session(steps)


def test_an_older_table_changes_nothing() -> None:
    async def steps(leader: Leader, followed: FollowedTables) -> None:
        newer = table(peer("a", weight=50), term=2)
        leader.tick(newer)
        await _until(lambda: followed.tables.get("web") is newer)
        leader.tick(table(peer("a"), term=1, generation=99), table(peer("a"), upstream="later"))
        await _until(lambda: "later" in followed.assignments)
        assert followed.tables["web"] is newer

    _session(steps)


def test_what_is_declared_no_more_is_absent_for_whoever_comes_then() -> None:
    async def steps(leader: Leader, followed: FollowedTables) -> None:
        leader.tick(table(peer("a")))
        await _until(lambda: "web" in followed.assignments)
        assert followed.absent == {"later", "no name!"}
        changed = followed.changed
        leader.tick()
        await _until(changed.is_set)
        assert followed.absent == {"web", "later", "no name!"}
        assert followed.assignments == {}

    _session(steps)


def test_a_controller_that_knows_of_no_leader_says_of_no_name_that_it_is_not_declared() -> None:
    async def steps(leader: Leader, followed: FollowedTables) -> None:
        leader.role = "waiting"
        leader.tick(table(peer("a")))
        await _until(lambda: "web" in followed.assignments)
        assert followed.absent == {"no name!"}

    _session(steps)
