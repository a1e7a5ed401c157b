from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.grid import following

TICKS = st.floats(0.1, 60)


def test_ticks_lie_on_a_grid_whatever_they_take() -> None:
    assert following(10.0, 10.2, 1.0) == (11.0, 0)
    assert following(10.0, 10.9, 1.0) == (11.0, 0)


def test_a_tick_that_overruns_lets_those_it_overran_fall_out() -> None:
    assert following(10.0, 11.5, 1.0) == (12.0, 1)
    assert following(10.0, 13.5, 1.0) == (14.0, 3)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 200), min_size=1, max_size=20), TICKS)
def test_none_is_due_before_the_last_is_over_and_all_are_counted(
    start_s: float, took_s: list[float], tick_s: float
) -> None:
    due_s, ticks = start_s, 0
    for each_s in took_s:
        over_s = due_s + each_s
        due_s, missed = following(due_s, over_s, tick_s)
        ticks += 1 + missed
        assert due_s > over_s - 1e-6 * due_s
        assert abs(due_s - start_s - ticks * tick_s) < 1e-6 * max(1.0, due_s)
