"""The ticks at which each upstream is saved."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.tick import tick_schedule


def test_of_a_few_servers_everything_is_kept_at_every_tick() -> None:
    assert tick_schedule.memory_period(99) == tick_schedule.moment_period(99, 99) == 1
    assert all(tick_schedule.is_turn(tick, 0, 1) for tick in range(5))


def test_of_ten_thousand_a_memory_is_at_most_a_third_of_the_laws_own_old() -> None:
    assert tick_schedule.memory_period(10_000) == tick_schedule.memory_period(1_000_000) == 11


def test_the_moments_of_a_large_upstream_lie_apart() -> None:
    assert tick_schedule.moment_period(10_000, 10_000) == 101
    assert tick_schedule.moment_period(100, 10_000) == 11


# The size of a moment in Redis, measured: docs/research/scaling.md.
MOMENT_BYTES, PEER_BYTES = 300, 80


@given(st.integers(1, 5000), st.integers(1, 50_000))
def test_a_quarter_of_an_hour_of_history_is_bounded_however_many_servers_and_upstreams(
    upstreams: int, servers: int
) -> None:
    each = max(1, servers // upstreams)
    apart = tick_schedule.moment_period(each, tick_schedule.in_peers([each] * upstreams))
    kept = max(1, 900 // apart)
    assert upstreams * kept * (MOMENT_BYTES + each * PEER_BYTES) < 75e6


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(1, 200))
def test_each_has_exactly_one_turn_in_a_period(first: int, position: int, period: int) -> None:
    assert sum(tick_schedule.is_turn(tick, position, period) for tick in range(first, first + period)) == 1


@given(st.integers(0, 10**6))
def test_the_turns_of_many_are_spread(tick: int) -> None:
    assert sum(tick_schedule.is_turn(tick, position, 11) for position in range(110)) == 10
