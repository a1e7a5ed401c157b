"""Growth: a leak shows, a swing does not."""

import random
from collections.abc import Callable

import pytest
from steelyard_resilience.soak.leaks import growth

TIMES_S = [float(second) for second in range(100)]


def test_a_steady_leak_is_found_to_the_byte() -> None:
    grown = growth(TIMES_S, [5e6 + 20_000 * at_s for at_s in TIMES_S])
    assert grown.trend == pytest.approx(20_000 * 99)
    assert (grown.begin, grown.end, grown.span_s) == (5e6 + 20_000 * 9.5, 5e6 + 20_000 * 89.5, 99.0)


def test_noise_around_a_level_is_no_growth() -> None:
    dice = random.Random(7)
    grown = growth(TIMES_S, [5e6 + dice.gauss(0, 50_000) for _ in TIMES_S])
    assert abs(grown.trend) < 50_000
    assert grown.by("private_bytes") < 100_000


def test_a_leak_is_found_under_noise_larger_than_a_second_of_it() -> None:
    dice = random.Random(7)
    grown = growth(TIMES_S, [5e6 + 20_000 * at_s + dice.gauss(0, 100_000) for at_s in TIMES_S])
    assert grown.trend == pytest.approx(20_000 * 99, rel=0.1)


def test_a_saw_tooth_is_no_growth() -> None:
    """Like LuaJIT's heap, which fills up until a collection."""
    assert growth(TIMES_S, [5e6 + 100_000 * (at_s % 7) for at_s in TIMES_S]).by("heap_bytes") < 100_000


def test_a_fifth_of_outliers_moves_nothing() -> None:
    grown = growth(TIMES_S, [5e6 + (9e6 if at_s % 5 == 0 else 0) for at_s in TIMES_S])
    assert grown.trend == 0
    assert grown.begin == grown.end == 5e6


@pytest.mark.parametrize("leaked", [lambda at_s: at_s > 25, lambda at_s: max(0.0, (at_s - 80) / 9.5)])
def test_a_step_that_is_never_taken_back_and_a_late_leak_show_in_the_rise_alone(
    leaked: Callable[[float], float],
) -> None:
    grown = growth(TIMES_S, [5e6 + 1e6 * leaked(at_s) for at_s in TIMES_S])
    assert grown.trend == 0
    assert grown.by("private_bytes") == 1e6
    assert grown.by("descriptors") == 0


def test_shrinking_is_negative_growth() -> None:
    assert growth(TIMES_S, [5e6 - 1000 * at_s for at_s in TIMES_S]).by("private_bytes") < 0
