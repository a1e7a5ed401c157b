"""Whose turn it is to be kept."""

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller import turns


def test_of_a_few_servers_everything_is_kept_at_every_tick() -> None:
    assert turns.memory_period(99) == turns.moment_period(99, 99) == 1
    assert all(turns.is_turn(tick, 0, 1) for tick in range(5))


def test_of_ten_thousand_a_memory_is_at_most_a_third_of_the_laws_own_old() -> None:
    assert turns.memory_period(10_000) == turns.memory_period(1_000_000) == 11


def test_the_moments_of_a_large_upstream_lie_apart() -> None:
    assert turns.moment_period(10_000, 10_000) == 101
    assert turns.moment_period(100, 10_000) == 11


def test_who_listens_is_told_of_every_tick_but_of_very_many_servers() -> None:
    assert (turns.telling_period(999), turns.telling_period(10_000)) == (1, 11)


@given(st.integers(0, 10**6), st.integers(0, 10**4), st.integers(1, 200))
def test_each_has_exactly_one_turn_in_a_period(first: int, position: int, period: int) -> None:
    assert sum(turns.is_turn(tick, position, period) for tick in range(first, first + period)) == 1


@given(st.integers(0, 10**6))
def test_the_turns_of_many_are_spread(tick: int) -> None:
    assert sum(turns.is_turn(tick, position, 11) for position in range(110)) == 10
