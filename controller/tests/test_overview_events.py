"""The overviews of `tick` events: which are made, when, and their share of a CPU."""

import asyncio
from collections.abc import Callable, Hashable

import pytest
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.events import Listeners
from steelyard_controller.overview_events import CPU_SHARE, TURN_S, OverviewEvents
from steelyard_controller.tick.cycle import Cycle

NAMES = ("a", "b", "c")


class Made:
    """Overviews with costs set by the test, of cycles with a number as their outcome."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.listeners = Listeners()
        self.cycles = {name: Cycle(name, Declaration(upstream=Upstream()), tick_s=1.0) for name in NAMES}
        self.newest = dict.fromkeys(NAMES, 0)
        self.made: list[str] = []
        self.pauses: list[float] = []
        self.used_s = 0.0
        self.meanwhile: Callable[[], None] = lambda: None
        self._cost_s = cost_s
        self.events = OverviewEvents(
            self.listeners, lambda: self.cycles, self._make, used=lambda: self.used_s, pause=self._pause
        )

    def _make(self, cycle: Cycle, view: Hashable) -> bytes | None:
        self.used_s += self._cost_s
        if self.newest[cycle.name] < 0:
            raise LookupError("broken")
        self.made.append(f"{cycle.name}{self.newest[cycle.name]}{view or ''}")
        now, self.meanwhile = self.meanwhile, lambda: None
        now()
        return self.made[-1].encode()

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def until(self, look: Callable[[], object]) -> None:
        running = asyncio.create_task(self.events.run())
        async with asyncio.timeout(10):
            while not look():
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_what_was_noted_many_times_has_one_overview_of_its_newest_outcome() -> None:
    async def run() -> None:
        it = Made()
        with it.listeners.subscribe(None) as reader:
            for number in range(5):
                for name in NAMES:
                    it.newest[name] = number
                    it.events.note(name)
            assert it.made == []
            await it.until(lambda: len(it.made) == 3)
            assert it.made == ["a4", "b4", "c4"]
            assert (await reader.next()).data == b"a4"

    asyncio.run(run())


def test_what_is_noted_while_it_is_made_is_made_again() -> None:
    async def run() -> None:
        it = Made()
        with it.listeners.subscribe(None):
            it.events.note("a")
            it.meanwhile = lambda: it.events.note("a")
            await it.until(lambda: len(it.made) == 2)
        assert it.made == ["a0", "a0"]

    asyncio.run(run())


def test_the_longest_noted_comes_first_and_a_turn_has_an_end() -> None:
    async def run() -> None:
        it = Made(cost_s=TURN_S)
        with it.listeners.subscribe(None):
            it.events.note("b")
            it.events.note("a")
            it.events.note("b")
            await it.until(lambda: len(it.pauses) == 2)
        assert it.made == ["b0", "a0"]
        assert it.pauses == pytest.approx([TURN_S * (1 / CPU_SHARE - 1)] * 2)

    asyncio.run(run())


def test_nothing_is_made_where_nobody_listens_or_of_what_is_gone() -> None:
    async def run() -> None:
        it = Made()
        it.events.note("a")
        with it.listeners.subscribe("a"):
            it.events.note("b")
            it.events.note("a")
        with it.listeners.subscribe("c"):
            it.events.note("c")
            await it.until(lambda: it.made)
            assert it.made == ["c0"]
            it.made.clear()
            it.events.note("c")
            del it.cycles["c"]
            running = asyncio.create_task(it.events.run())
            await asyncio.sleep(0.01)
            assert it.made == []
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def test_one_that_cannot_be_made_is_logged_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        it = Made()
        it.newest["a"] = -1
        with it.listeners.subscribe(None):
            for name in NAMES:
                it.events.note(name)
            await it.until(lambda: len(it.made) == 2)
        assert "a: its overview cannot be made" in caplog.text

    asyncio.run(run())


def test_readers_of_one_view_share_an_overview_and_each_view_has_its_turn() -> None:
    async def run() -> None:
        it = Made(cost_s=TURN_S)
        with (
            it.listeners.subscribe("a", view=" page 1"),
            it.listeners.subscribe("a", view=" page 1"),
            it.listeners.subscribe("a", view=" page 2"),
        ):
            it.meanwhile = lambda: it.events.note("a")
            it.events.note("a")
            await it.until(lambda: len(it.pauses) == 3)
        assert sorted(it.made[:2]) == ["a0 page 1", "a0 page 2"]
        assert it.made[2] == it.made[0]

    asyncio.run(run())
