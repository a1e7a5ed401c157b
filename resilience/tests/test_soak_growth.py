"""Growth: what leaks shows, what only swings does not."""

import random

import pytest
from steelyard_resilience.soak.leaks import growth, theil_sen

TIMES_S = [float(second) for second in range(100)]


def test_a_steady_leak_is_found_to_the_byte() -> None:
    grown = growth(TIMES_S, [5e6 + 20_000 * at_s for at_s in TIMES_S])
    assert grown.trend == pytest.approx(20_000 * 99)
    assert grown.trend_per_hour == pytest.approx(20_000 * 3600)
    assert (grown.begin, grown.end) == (5e6 + 20_000 * 9.5, 5e6 + 20_000 * 89.5)


def test_noise_around_a_level_is_no_growth() -> None:
    dice = random.Random(7)
    grown = growth(TIMES_S, [5e6 + dice.gauss(0, 50_000) for _ in TIMES_S])
    assert abs(grown.trend) < 50_000
    assert grown.most < 100_000


def test_a_leak_is_found_under_noise_larger_than_a_second_of_it() -> None:
    dice = random.Random(7)
    grown = growth(TIMES_S, [5e6 + 20_000 * at_s + dice.gauss(0, 100_000) for at_s in TIMES_S])
    assert grown.trend == pytest.approx(20_000 * 99, rel=0.1)


def test_a_saw_tooth_is_no_growth() -> None:
    """As LuaJIT's heap: it fills up and is collected."""
    grown = growth(TIMES_S, [5e6 + 100_000 * (at_s % 7) for at_s in TIMES_S])
    assert grown.most < 100_000


def test_a_fifth_of_outliers_moves_nothing() -> None:
    values = [5e6 + (9e6 if at_s % 5 == 0 else 0) for at_s in TIMES_S]
    grown = growth(TIMES_S, values)
    assert grown.trend == 0
    assert grown.begin == grown.end == 5e6


def test_a_step_that_is_never_taken_back_shows_in_the_rise_alone() -> None:
    grown = growth(TIMES_S, [5e6 + (1e6 if at_s > 25 else 0) for at_s in TIMES_S])
    assert grown.trend == 0
    assert grown.most == 1e6


def test_what_shrinks_has_grown_by_less_than_nothing() -> None:
    assert growth(TIMES_S, [5e6 - 1000 * at_s for at_s in TIMES_S]).most < 0


def test_two_readings_of_one_moment_make_no_slope() -> None:
    assert theil_sen([0.0, 1.0, 1.0], [0.0, 2.0, 4.0]) == 3.0


@pytest.mark.parametrize("times_s", [[], [1.0], [1.0, 1.0]])
def test_one_moment_is_not_enough(times_s: list[float]) -> None:
    with pytest.raises(ValueError, match="two moments"):
        growth(times_s, [0.0] * len(times_s))
