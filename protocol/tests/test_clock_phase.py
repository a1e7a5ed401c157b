"""The common phase: reached in a few periods, and never at the cost of a period."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol.clock_phase import (
    CONTROLLER_S,
    MAX_SHIFT,
    SPREAD_S,
    START_SHIFT,
    Pace,
    aimed,
    spread_s,
)

INTERVALS = st.floats(0.05, 60)
WALL = st.floats(0, 4e9)


def missed(wall_s: float, interval_s: float, instant_s: float) -> float:
    """Return by how much an instant of the wall clock misses the common one."""
    return abs((wall_s - instant_s + interval_s / 2) % interval_s - interval_s / 2)


@given(WALL, INTERVALS, st.floats(0, 1))
def test_half_a_period_is_made_up_within_eleven_periods(
    offset_s: float, interval_s: float, instant_s: float
) -> None:
    due_s = 1000.0
    for _ in range(11):
        due_s = aimed(
            due_s + interval_s,
            now_s=due_s,
            wall_s=due_s + offset_s,
            interval_s=interval_s,
            instant_s=instant_s,
        )
    assert missed(due_s + offset_s, interval_s, instant_s) < 1e-5


@given(WALL, INTERVALS, st.floats(0, 1))
def test_at_a_start_the_instant_itself_is_aimed_at(
    offset_s: float, interval_s: float, instant_s: float
) -> None:
    first_s = aimed(
        1000.0,
        now_s=999.0,
        wall_s=999.0 + offset_s,
        interval_s=interval_s,
        instant_s=instant_s,
        shift=START_SHIFT,
    )
    assert abs(first_s - 1000.0) <= interval_s / 2 + 1e-5
    assert missed(first_s + offset_s, interval_s, instant_s) < 1e-5


@given(st.lists(st.one_of(WALL, st.floats(allow_nan=False, min_value=-1e12, max_value=1e12))), INTERVALS)
def test_whatever_the_wall_clock_does_each_period_keeps_its_length(
    walls_s: list[float], interval_s: float
) -> None:
    due_s = 1000.0
    for wall_s in walls_s:
        after_s = aimed(due_s + interval_s, now_s=due_s, wall_s=wall_s, interval_s=interval_s, instant_s=0.1)
        assert (1 - MAX_SHIFT) * interval_s - 1e-6 <= after_s - due_s <= (1 + MAX_SHIFT) * interval_s + 1e-6
        due_s = after_s


def test_many_senders_do_not_act_in_one_instant() -> None:
    spread = sorted(spread_s(f"web/server-{n}", 1.0) for n in range(10_000))
    assert spread[0] >= 0
    assert spread[-1] < SPREAD_S
    most = max(sum(1 for each in spread if n <= each * 1000 < n + 1) for n in range(50))
    assert most < 300  # of 10,000, in any millisecond of fifty


def test_a_sender_acts_at_the_same_instant_after_a_restart_and_never_far_into_its_period() -> None:
    assert spread_s("web/server-1", 1.0) == spread_s("web/server-1", 1.0)
    assert max(spread_s(f"web/server-{n}", 0.1) for n in range(100)) <= 0.005


def next_of(
    due_s: float, now_s: float, *, interval_s: float = 1.0, shortest: float = 0.5
) -> tuple[float, int]:
    """Return the next instant after `due_s` and how many are left out, if the phase is kept already."""
    pace = Pace(due_s, interval_s=interval_s, instant_s=0.0, shortest=shortest)
    left_out = pace.next(now_s, now_s - due_s)
    return pace.due_s, left_out


def test_instants_lie_on_a_grid_whatever_is_done_between() -> None:
    assert next_of(10.0, 10.2) == next_of(10.0, 10.5) == (11.0, 0)
    assert next_of(10.0, 10.9, shortest=0.0) == (11.0, 0)


def test_a_wait_that_ended_early_does_not_repeat_an_instant() -> None:
    assert next_of(10.0, 9.9999) == (11.0, 0)


def test_instants_that_were_missed_are_left_out_and_counted() -> None:
    assert next_of(10.0, 12.2) == (13.0, 2)
    assert next_of(10.0, 11.5, shortest=0.0) == (12.0, 1)
    assert next_of(10.0, 13.5, shortest=0.0) == (14.0, 3)


def test_an_instant_that_is_nearer_than_the_shortest_period_is_left_out() -> None:
    assert next_of(10.0, 10.6) == (12.0, 1)
    assert next_of(10.0, 10.6, shortest=0.0) == (11.0, 0)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 200), min_size=1, max_size=20), INTERVALS, st.floats(0, 0.5))
def test_none_is_due_before_what_was_done_is_over_and_all_are_counted(
    start_s: float, took_s: list[float], interval_s: float, shortest: float
) -> None:
    pace, instants = Pace(start_s, interval_s=interval_s, instant_s=0.0, shortest=shortest), 0
    for each_s in took_s:
        over_s = pace.due_s + each_s
        instants += 1 + pace.next(over_s, over_s - start_s)
        assert pace.due_s >= over_s + shortest * interval_s - 1e-6 * max(1.0, pace.due_s)
        assert abs(pace.due_s - start_s - instants * interval_s) < 1e-6 * max(1.0, pace.due_s)


@given(WALL, INTERVALS)
def test_the_controllers_second_tick_is_at_its_instant_and_they_stay_there(
    offset_s: float, interval_s: float
) -> None:
    pace = Pace(1000.0, interval_s=interval_s, instant_s=CONTROLLER_S, shortest=0.0)
    for _ in range(3):
        now_s = pace.due_s + 0.01
        pace.next(now_s, now_s + offset_s)
        assert missed(pace.due_s + offset_s, interval_s, 0.1) < 1e-5


@given(st.lists(st.floats(-1e10, 1e10), min_size=2), INTERVALS)
def test_a_wall_clock_that_jumps_leaves_each_tick_its_length(walls_s: list[float], interval_s: float) -> None:
    pace = Pace(1000.0, interval_s=interval_s, instant_s=CONTROLLER_S, shortest=0.0)
    pace.next(1000.0, walls_s[0])
    for wall_s in walls_s[1:]:
        before_s = pace.due_s
        assert pace.next(before_s + 0.1 * interval_s, wall_s) == 0
        assert 0.949 * interval_s < pace.due_s - before_s < 1.051 * interval_s
