"""When ticks are due, and in which of them each upstream is saved."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.tick import tick_schedule
from steelyard_controller.tick.tick_schedule import in_phase, next_tick

TICKS = st.floats(0.1, 60)


def test_of_a_few_servers_everything_is_kept_at_every_tick() -> None:
    assert tick_schedule.memory_period(99) == tick_schedule.moment_period(99, 99) == 1
    assert all(tick_schedule.is_turn(tick, 0, 1) for tick in range(5))


def test_of_ten_thousand_a_memory_is_at_most_a_third_of_the_laws_own_old() -> None:
    assert tick_schedule.memory_period(10_000) == tick_schedule.memory_period(1_000_000) == 11


def test_the_moments_of_a_large_upstream_lie_apart() -> None:
    assert tick_schedule.moment_period(10_000, 10_000) == 101
    assert tick_schedule.moment_period(100, 10_000) == 11


# Of a moment in Redis, measured: docs/scaling.md.
MOMENT_BYTES, PEER_BYTES = 300, 80


@given(st.integers(1, 5000), st.integers(1, 50_000))
def test_a_quarter_of_an_hour_of_history_is_bounded_however_many_servers_and_upstreams(
    upstreams: int, servers: int
) -> None:
    each = max(1, servers // upstreams)
    apart = tick_schedule.moment_period(each, tick_schedule.in_peers([each] * upstreams))
    kept = max(1, 900 // apart)
    assert upstreams * kept * (MOMENT_BYTES + each * PEER_BYTES) < 75e6


def test_who_listens_is_told_of_every_tick_but_of_very_many_servers() -> None:
    assert (tick_schedule.event_period(999), tick_schedule.event_period(10_000)) == (1, 11)


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(1, 200))
def test_each_has_exactly_one_turn_in_a_period(first: int, position: int, period: int) -> None:
    assert sum(tick_schedule.is_turn(tick, position, period) for tick in range(first, first + period)) == 1


@given(st.integers(0, 10**6))
def test_the_turns_of_many_are_spread(tick: int) -> None:
    assert sum(tick_schedule.is_turn(tick, position, 11) for position in range(110)) == 10


def test_ticks_lie_on_a_grid_whatever_they_take() -> None:
    assert next_tick(10.0, 10.2, 1.0) == (11.0, 0)
    assert next_tick(10.0, 10.9, 1.0) == (11.0, 0)


def test_a_tick_that_overruns_lets_those_it_overran_fall_out() -> None:
    assert next_tick(10.0, 11.5, 1.0) == (12.0, 1)
    assert next_tick(10.0, 13.5, 1.0) == (14.0, 3)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 200), min_size=1, max_size=20), TICKS)
def test_none_is_due_before_the_last_is_over_and_all_are_counted(
    start_s: float, took_s: list[float], tick_s: float
) -> None:
    due_s, ticks = start_s, 0
    for each_s in took_s:
        over_s = due_s + each_s
        due_s, missed = next_tick(due_s, over_s, tick_s)
        ticks += 1 + missed
        assert due_s > over_s - 1e-6 * due_s
        assert abs(due_s - start_s - ticks * tick_s) < 1e-6 * max(1.0, due_s)


@given(st.floats(0, 4e9), TICKS)
def test_the_second_tick_is_a_tenth_of_a_second_after_a_whole_one_and_they_stay_there(
    offset_s: float, tick_s: float
) -> None:
    due_s = 1000.0
    for n in range(3):
        due_s, _ = next_tick(due_s, due_s + 0.01, tick_s)
        due_s = in_phase(
            due_s,
            now_s=due_s - 0.9 * tick_s,
            wall_s=due_s - 0.9 * tick_s + offset_s,
            tick_s=tick_s,
            first=n == 0,
        )
        missed_s = (due_s + offset_s - 0.1 + tick_s / 2) % tick_s - tick_s / 2
        assert abs(missed_s) < 1e-5


@given(st.lists(st.floats(-1e10, 1e10), min_size=1), TICKS)
def test_a_wall_clock_that_jumps_leaves_each_tick_its_length(walls_s: list[float], tick_s: float) -> None:
    before_s = 1000.0
    for wall_s in walls_s:
        due_s, missed = next_tick(before_s, before_s + 0.1 * tick_s, tick_s)
        due_s = in_phase(due_s, now_s=before_s + 0.1 * tick_s, wall_s=wall_s, tick_s=tick_s, first=False)
        assert missed == 0
        assert 0.949 * tick_s < due_s - before_s < 1.051 * tick_s
        before_s = due_s
