"""The common phase: reached in a few periods, and never at the cost of a period."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol.clock_phase import ANYWHERE, PULL, SPREAD_S, aimed, spread_s

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
    found = aimed(
        1000.0,
        now_s=999.0,
        wall_s=999.0 + offset_s,
        interval_s=interval_s,
        instant_s=instant_s,
        pull=ANYWHERE,
    )
    assert abs(found - 1000.0) <= interval_s / 2 + 1e-5
    assert missed(found + offset_s, interval_s, instant_s) < 1e-5


@given(st.lists(st.one_of(WALL, st.floats(allow_nan=False, min_value=-1e12, max_value=1e12))), INTERVALS)
def test_whatever_the_wall_clock_does_each_period_keeps_its_length(
    walls_s: list[float], interval_s: float
) -> None:
    due_s = 1000.0
    for wall_s in walls_s:
        after_s = aimed(due_s + interval_s, now_s=due_s, wall_s=wall_s, interval_s=interval_s, instant_s=0.1)
        assert (1 - PULL) * interval_s - 1e-6 <= after_s - due_s <= (1 + PULL) * interval_s + 1e-6
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
