"""When the next tick is due, and a loop that keeps to it."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import record, schedule
from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.loop import Wake, run
from steelyard_agent.reading import HostReading
from steelyard_agent.record import SampleRecord
from steelyard_agent.sample import NOTHING
from steelyard_agent.schedule import following


def test_ticks_come_in_order() -> None:
    assert following(0, 0.2) == 1
    assert following(1, 1.3) == 2


def test_missed_ticks_are_skipped() -> None:
    assert following(3, 5.2) == 6


def test_a_tick_that_is_nearer_than_half_an_interval_is_skipped() -> None:
    assert following(3, 3.5) == 4
    assert following(3, 3.6) == 5


def test_a_wait_that_ended_early_does_not_repeat_a_tick() -> None:
    assert following(3, 2.9999) == 4


@given(st.integers(0, 10**6), st.floats(0, 10**6), st.floats(0, 1))
def test_the_next_tick_is_a_later_one_and_half_an_interval_off(
    tick: int, elapsed: float, random: float
) -> None:
    found = following(tick, elapsed)
    assert found > tick
    assert schedule.due(found, random) >= elapsed + 0.5 - schedule.JITTER - 1e-6


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True))
def test_the_first_tick_is_due_within_half_to_one_and_a_half_intervals(one: float, other: float) -> None:
    due = schedule.due(following(0, -schedule.phase(one)), other) + schedule.phase(one)
    assert 0.449 < due < 1.551


def test_phases_spread_agents_over_the_whole_interval() -> None:
    phases = [schedule.phase(n / 1000) for n in range(1000)]
    assert (min(phases), max(phases)) == (-0.5, 0.499)
    assert len(set(phases)) == 1000


class Clock:
    """Time that passes only by waiting, and by the work that is put on it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def until(self, count: int, *, reload_at: int = 0) -> Callable[[float], Wake]:
        def wait(timeout_s: float) -> Wake:
            self.waits.append(timeout_s)
            if len(self.waits) == reload_at:
                self.now_s += timeout_s / 4
                return Wake.RELOAD
            self.now_s += timeout_s
            return Wake.STOP if len(self.waits) >= count else Wake.DUE

        return wait


class Shelf:
    """A pool that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[SampleRecord] = []

    @property
    def reachable(self) -> dict[str, bool]:
        return {}

    def put(self, key: str, value: bytes) -> bool:  # noqa: ARG002 (a pool's signature)
        decoded = record.decode(value)
        assert isinstance(decoded, SampleRecord)
        self.records.append(decoded)
        return True


def ticking(clock: Clock, works_s: list[float], shelf: Shelf, *, interval_s: float = 1.0) -> Agent:
    work = iter(works_s)

    def read() -> HostReading:
        at_s = clock.now_s
        clock.now_s += next(work)
        return HostReading(at_s=at_s, cores=2, cpu_busy_s=at_s, memory=None, nics=None, disks=None)

    return Agent(
        Sampler(read, NOTHING),
        shelf,
        upstream="web",
        peer="server-1",
        scope="host",
        boot="b1",
        interval_s=interval_s,
        stale_s=3.0,
        wall_clock=clock,
        clock=clock,
    )


def middle() -> float:
    """Return the random number that gives neither phase nor jitter."""
    return 0.5


def never(agent: Agent) -> Agent:
    raise AssertionError(f"nobody asked to reload {agent}")


def test_slow_ticks_do_not_make_the_schedule_drift() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.25, 0.5, 0.0, 0.125, 0.0], shelf)
    run(agent, clock=clock, random=middle, wait=clock.until(4), reload=never)
    assert clock.waits == [0.75, 0.5, 1.0, 0.875]
    assert [sent.leaving for sent in shelf.records] == [False, False, False, True]


def test_a_tick_that_takes_several_intervals_skips_them() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0, 3.25, 0.0, 0.0], shelf)
    run(agent, clock=clock, random=middle, wait=clock.until(3), reload=never)
    assert clock.waits == [1.0, 0.75, 1.0]
    assert [sent.interval_s for sent in shelf.records] == [1.0, 4.0, 1.0]


def test_jitter_does_not_add_up_and_the_phase_stays() -> None:
    clock, shelf = Clock(), Shelf()
    numbers = iter([0.75, *[1.0, 0.0] * 50, 0.5, 0.5])  # the phase, then jitter to and fro
    agent = ticking(clock, [0.0] * 102, shelf, interval_s=2.0)
    run(agent, clock=clock, random=numbers.__next__, wait=clock.until(101), reload=never)
    assert clock.now_s == 1000.0 + 2.0 * (101 + 0.25)
    assert {sent.interval_s for sent in shelf.records[1:100]} == {1.8, 2.2}


def test_a_reload_that_changes_nothing_misses_no_tick() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0] * 4, shelf)
    run(agent, clock=clock, random=middle, wait=clock.until(4, reload_at=2), reload=lambda same: same)
    assert clock.waits == [1.0, 1.0, 0.75, 1.0]
    assert [sent.interval_s for sent in shelf.records] == [1.0, 1.0, 1.0]


def test_a_reload_goes_on_with_the_new_agents_interval() -> None:
    clock, old, new = Clock(), Shelf(), Shelf()
    successor = ticking(clock, [0.0] * 4, new, interval_s=2.0)
    agent = ticking(clock, [0.0] * 2, old)
    run(agent, clock=clock, random=middle, wait=clock.until(4, reload_at=2), reload=lambda _old: successor)
    assert clock.waits == [1.0, 1.0, 2.0, 2.0]
    assert [sent.leaving for sent in old.records] == [False]
    assert [(sent.interval_s, sent.leaving) for sent in new.records] == [(2.0, False), (2.0, True)]
