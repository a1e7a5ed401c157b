"""A loop that keeps its pace, with slow ticks and stepped clocks."""

from collections.abc import Callable, Mapping

import pytest
from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.loop import Wake, run
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.host import HostReading
from steelyard_protocol import clock_phase, sample_reader
from steelyard_protocol.memcached_writer import MemcachedWriter
from steelyard_protocol.sample_record import SampleRecord


class Clock:
    """Time that passes only by waiting and by simulated work."""

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


class Shelf(MemcachedWriter):
    """A pool that keeps its values."""

    def __init__(self) -> None:
        super().__init__([])
        self.records: list[SampleRecord] = []

    def put_many(self, values: Mapping[str, bytes]) -> set[str]:
        for value in values.values():
            decoded = sample_reader.decode(value)
            assert isinstance(decoded, SampleRecord)
            self.records.append(decoded)
        return set(values)


def ticking(clock: Clock, works_s: list[float], shelf: Shelf, *, interval_s: float = 1.0) -> Agent:
    work = iter(works_s)

    def read() -> HostReading:
        at_s = clock.now_s
        clock.now_s += next(work)
        return HostReading(at_s=at_s, cores=2, cpu_busy_s=at_s, memory=None, nics=None, disks=None)

    return Agent(
        Sampler(read, NOTHING),
        RecordStream(upstream="web", peer="server-1", scope="host", boot="b1", wall_clock=clock),
        shelf,
        interval_s=interval_s,
        stale_s=3.0,
        clock=clock,
    )


def in_phase(clock: Clock, interval_s: float = 1.0) -> Callable[[], float]:
    """Return a wall clock with this agent in phase from the start."""
    return lambda: clock.now_s + clock_phase.spread_s("web/server-1", interval_s)


def never(agent: Agent) -> Agent:
    raise AssertionError(f"nobody asked to reload {agent}")


def test_slow_ticks_do_not_make_the_schedule_drift() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.25, 0.5, 0.0, 0.125, 0.0], shelf)
    run(agent, clock=clock, wall_clock=in_phase(clock), wait=clock.until(4), reload=never)
    assert clock.waits == [0.75, 0.5, 1.0, 0.875]
    assert [sent.leaving for sent in shelf.records] == [False, False, False, True]


def test_a_tick_that_takes_several_intervals_skips_them() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0, 3.25, 0.0, 0.0], shelf)
    run(agent, clock=clock, wall_clock=in_phase(clock), wait=clock.until(3), reload=never)
    assert clock.waits == [1.0, 0.75, 1.0]
    assert [sent.interval_s for sent in shelf.records] == [1.0, 4.0, 1.0]


def test_the_second_tick_is_at_a_whole_interval_of_the_wall_clock_and_so_are_all_after_it() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0] * 5, shelf, interval_s=2.0)
    behind_s = 0.75  # by the wall clock, 2 s after the last whole interval less that
    run(
        agent,
        clock=clock,
        wall_clock=lambda: in_phase(clock, 2.0)() - behind_s,
        wait=clock.until(4),
        reload=never,
    )
    assert clock.waits == [2.75, 2.0, 2.0, 2.0]


def test_a_clock_that_is_stepped_moves_the_phase_by_a_twentieth_of_each_interval() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0] * 9, shelf)
    wall = in_phase(clock)
    stepped_s = -3600.125
    run(
        agent,
        clock=clock,
        wall_clock=lambda: wall() + (stepped_s if clock.now_s > 1001.5 else 0.0),
        wait=clock.until(8),
        reload=never,
    )
    assert clock.waits == pytest.approx([1.0, 1.0, 1.05, 1.05, 1.025, 1.0, 1.0, 1.0])
    assert [sent.interval_s for sent in shelf.records] == pytest.approx(clock.waits, abs=1e-6)


def test_a_reload_that_changes_nothing_misses_no_tick() -> None:
    clock, shelf = Clock(), Shelf()
    agent = ticking(clock, [0.0] * 4, shelf)
    run(
        agent,
        clock=clock,
        wall_clock=in_phase(clock),
        wait=clock.until(4, reload_at=2),
        reload=lambda same: same,
    )
    assert clock.waits == [1.0, 1.0, 0.75, 1.0]
    assert [sent.interval_s for sent in shelf.records] == [1.0, 1.0, 1.0]


def test_a_reload_goes_on_with_the_new_agents_interval() -> None:
    clock, old, new = Clock(), Shelf(), Shelf()
    successor = ticking(clock, [0.0] * 4, new, interval_s=2.0)
    agent = ticking(clock, [0.0] * 2, old)
    run(
        agent,
        clock=clock,
        wall_clock=in_phase(clock),
        wait=clock.until(4, reload_at=2),
        reload=lambda _old: successor,
    )
    assert clock.waits == [1.0, 1.0, 2.75, 2.0]  # to the second whole interval, and on by one
    assert [sent.leaving for sent in old.records] == [False]
    assert [(sent.interval_s, sent.leaving) for sent in new.records] == [(2.75, False), (2.0, True)]
