"""The CPU time of a process tree, and the samples of the process scope."""

from dataclasses import replace

import pytest
from steelyard_agent.sample import NOTHING, Indicators
from steelyard_agent.scopes.process import ProcessCounters, ProcessReading, cpu_spent_s, io_calls
from steelyard_agent.scopes.reading import sample_between

MASTER, WORKER, HELPER = 10, 11, 12


def process(
    cpu_s: float,
    reaped_cpu_s: float = 0.0,
    *,
    parent: int = 1,
    started_s: float = 50.0,
    io_calls: int | None = None,
) -> ProcessCounters:
    return ProcessCounters(
        parent_pid=parent,
        started_s=started_s,
        cpu_s=cpu_s,
        reaped_cpu_s=reaped_cpu_s,
        rss_bytes=1000,
        io_calls=io_calls,
    )


def reading(processes: dict[int, ProcessCounters], *, at_s: float = 100.0) -> ProcessReading:
    return ProcessReading(
        at_s=at_s,
        uptime_s=at_s,
        root_pid=MASTER,
        name="app",
        processes=processes,
        cores=2,
        machine_cores=4,
        memory_total_bytes=8000,
    )


def spent(before: dict[int, ProcessCounters], after: dict[int, ProcessCounters]) -> float | None:
    return cpu_spent_s(reading(before), reading(after, at_s=101.0))


def test_survivors_count_what_they_added() -> None:
    before = {MASTER: process(5.0), WORKER: process(7.0, parent=MASTER)}
    after = {MASTER: process(5.25), WORKER: process(7.5, parent=MASTER)}
    assert spent(before, after) == 0.75


def test_a_child_that_appeared_counts_its_whole_time() -> None:
    after = {MASTER: process(5.0), WORKER: process(0.5, 0.25, parent=MASTER, started_s=100.5)}
    assert spent({MASTER: process(5.0)}, after) == 0.75


def test_a_child_that_came_and_went_between_readings_counts_through_its_parent() -> None:
    assert spent({MASTER: process(5.0)}, {MASTER: process(5.0, 0.5)}) == 0.5


def test_a_reaped_child_counts_only_what_it_spent_since_it_was_last_seen() -> None:
    before = {MASTER: process(5.0), WORKER: process(70.0, parent=MASTER)}
    assert spent(before, {MASTER: process(5.0, 70.5)}) == 0.5


def test_a_child_that_nobody_reaped_counts_what_was_last_seen_and_takes_nothing_off() -> None:
    before = {MASTER: process(5.0), WORKER: process(70.0, parent=MASTER)}
    assert spent(before, {MASTER: process(5.5)}) == 0.5


@pytest.mark.parametrize(
    ("quota", "given", "cores"), [(0.5, None, 0.5), (0.5, 0.25, 0.25), (3.0, None, 2.0), (None, None, 2.0)]
)
def test_cpu_is_of_the_least_of_quota_and_affinity_unless_a_limit_is_given(
    quota: float | None, given: float | None, cores: float
) -> None:
    before = reading({MASTER: process(5.0)})
    after = replace(reading({MASTER: process(5.2)}, at_s=101.0), quota_cores=quota)
    sample = sample_between(before, after, replace(NOTHING, cpu=given))
    assert sample is not None
    assert sample.capacity.cpu == cores
    assert sample.utilization.cpu == pytest.approx(0.2 / cores)


def test_a_whole_branch_that_ended_is_taken_off_its_surviving_ancestor() -> None:
    before = {
        MASTER: process(5.0),
        WORKER: process(20.0, parent=MASTER),
        HELPER: process(30.0, parent=WORKER),
    }
    assert spent(before, {MASTER: process(5.0, 50.5)}) == 0.5


def test_a_reused_pid_is_another_process() -> None:
    before = {MASTER: process(5.0), WORKER: process(70.0, parent=MASTER)}
    after = {MASTER: process(5.0, 70.0), WORKER: process(0.25, parent=MASTER, started_s=100.5)}
    assert spent(before, after) == 0.25


def test_a_child_that_the_reading_before_overlooked_counts_from_now_on() -> None:
    before = {MASTER: process(5.0)}
    after = {MASTER: process(5.25), WORKER: process(900.0, parent=MASTER, started_s=60.0)}
    assert spent(before, after) == 0.25


@pytest.mark.parametrize("after", [process(4.0), process(5.0, -1.0)])
def test_a_counter_that_went_backwards_is_no_figure(after: ProcessCounters) -> None:
    assert spent({MASTER: process(5.0)}, {MASTER: after}) is None


def test_more_than_the_machine_can_do_is_no_figure() -> None:
    assert spent({MASTER: process(5.0)}, {MASTER: process(5.0, 300.0)}) is None
    assert spent({MASTER: process(5.0)}, {MASTER: process(9.0)}) == 4.0


def test_io_calls_of_reaped_children_are_counted_once() -> None:
    before = reading({MASTER: process(0, io_calls=100), WORKER: process(0, parent=MASTER, io_calls=50)})
    after = reading({MASTER: process(0, io_calls=170)}, at_s=101.0)
    assert io_calls(before, after) == 20.0


def test_io_is_none_when_a_member_cannot_be_measured() -> None:
    before = reading({MASTER: process(0, io_calls=100)})
    after = {MASTER: process(0, io_calls=170), WORKER: process(0, parent=MASTER, started_s=100.5)}
    assert io_calls(before, reading(after, at_s=101.0)) is None


def test_a_process_sample_is_the_trees_share_of_its_limits() -> None:
    before = reading({MASTER: process(5.0, io_calls=0)})
    after = reading(
        {MASTER: process(5.5, io_calls=50), WORKER: process(0, parent=MASTER, started_s=100.5, io_calls=0)}
    )
    after = replace(after, at_s=102.0)
    unlimited = sample_between(before, after, NOTHING)
    assert unlimited is not None
    assert unlimited.utilization == Indicators(cpu=0.125, mem=0.25)
    assert unlimited.capacity == Indicators(cpu=2, mem=8000)
    limited = sample_between(before, after, Indicators(cpu=0.5, mem=4000.0, io=100.0))
    assert limited is not None
    assert limited.utilization == Indicators(cpu=0.5, mem=0.5, io=0.25)
    assert limited.capacity == Indicators(cpu=0.5, mem=4000.0, io=100.0)


def test_a_restarted_process_gives_no_sample_across_the_restart() -> None:
    before = reading({MASTER: process(5.0)})
    after = reading({MASTER: process(9.0, started_s=100.5)}, at_s=101.0)
    assert sample_between(before, after, NOTHING) is None
