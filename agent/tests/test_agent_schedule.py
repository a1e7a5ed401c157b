"""When the next tick is due, and a loop that keeps to it."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import record
from steelyard_agent.agent import Agent, Sampler, run
from steelyard_agent.reading import HostReading
from steelyard_agent.record import SampleRecord
from steelyard_agent.sample import NOTHING
from steelyard_agent.schedule import following


def test_ticks_come_in_order() -> None:
    assert following(0, 0.2, 1.0) == 1
    assert following(1, 1.3, 1.0) == 2


def test_missed_ticks_are_skipped() -> None:
    assert following(3, 5.2, 1.0) == 6


def test_a_wait_that_ended_early_does_not_repeat_a_tick() -> None:
    assert following(3, 2.9999, 1.0) == 4


@given(st.integers(0, 10**6), st.floats(0, 10**6), st.floats(0.1, 60))
def test_the_next_tick_is_later_and_not_yet_due(tick: int, elapsed_s: float, interval_s: float) -> None:
    found = following(tick, elapsed_s, interval_s)
    assert found > tick
    assert found * interval_s > elapsed_s - 1e-9


class Clock:
    """Time that passes only by waiting, and by the work that is put on it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def until(self, count: int) -> Callable[[float], bool]:
        def wait(timeout_s: float) -> bool:
            self.waits.append(timeout_s)
            self.now_s += timeout_s
            return len(self.waits) >= count

        return wait


class Shelf:
    """A store that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[SampleRecord] = []

    def put(self, key: str, value: bytes) -> bool:  # noqa: ARG002 (a store's signature)
        decoded = record.decode(value)
        assert isinstance(decoded, SampleRecord)
        self.records.append(decoded)
        return True


def ticking(clock: Clock, works_s: list[float], shelf: Shelf) -> Agent:
    work = iter(works_s)

    def read() -> HostReading:
        at_s = clock.now_s
        clock.now_s += next(work)
        return HostReading(at_s=at_s, cores=2, cpu_busy_s=at_s, memory=None, nics=None, disks=None)

    return Agent(
        Sampler(read, NOTHING),
        (shelf,),
        upstream="web",
        peer="server-1",
        scope="host",
        boot="b1",
        interval_s=1.0,
        wall_clock=clock,
    )


def test_slow_ticks_do_not_make_the_schedule_drift() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.25, 0.5, 0.0, 0.125, 0.0], shelf)
    run(agent, interval_s=1.0, clock=clock, wait=clock.until(4))
    assert clock.waits == [0.75, 0.5, 1.0, 0.875]
    assert [sent.leaving for sent in shelf.records] == [False, False, False, True]


def test_a_tick_that_takes_several_intervals_skips_them() -> None:
    clock, shelf = Clock(), Shelf()
    run(ticking(clock, [0.0, 3.25, 0.0, 0.0], shelf), interval_s=1.0, clock=clock, wait=clock.until(3))
    assert clock.waits == [1.0, 0.75, 1.0]
    assert [sent.interval_s for sent in shelf.records] == [1.0, 4.0, 1.0]
