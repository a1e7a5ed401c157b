"""Percentiles by nearest rank, and the points of a distribution."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_loadtest.measurements.trials import latency_at, nearest_rank, quantiles


@pytest.mark.parametrize(
    ("part", "value"), [(0.0, 1.0), (0.01, 1.0), (0.5, 50.0), (0.505, 51.0), (0.99, 99.0), (1.0, 100.0)]
)
def test_a_percentile_is_the_nearest_rank(part: float, value: float) -> None:
    assert nearest_rank([float(number) for number in range(1, 101)], part) == value


def test_a_percentile_of_few_is_one_of_them_and_of_none_is_none() -> None:
    assert nearest_rank([7.0], 0.5) == nearest_rank([7.0], 0.99) == 7.0
    assert nearest_rank([1.0, 2.0, 3.0], 0.5) == 2.0
    assert nearest_rank([], 0.5) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_at_least_that_part_of_the_values_is_no_greater_than_the_percentile(
    values: list[float], part: float
) -> None:
    percentile = nearest_rank(sorted(values), part)
    assert percentile in values
    assert sum(value <= percentile for value in values) >= round(part * len(values), 9)


def test_a_percentile_is_the_nearest_rank_in_spite_of_floating_point() -> None:
    hundred = [float(value) for value in range(1, 101)]
    assert [nearest_rank(hundred, part) for part in (0.0, 0.07, 0.5, 0.99, 1.0)] == [1, 7, 50, 99, 100]
    assert nearest_rank([], 0.5) is None


def test_quantiles_are_by_nearest_rank() -> None:
    of_100 = {quantile.part: quantile.ms for quantile in quantiles([float(ms) for ms in range(1, 101)])}
    assert of_100 == {0.5: 50, 0.75: 75, 0.9: 90, 0.99: 99, 0.999: 100}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_a_quantile_is_the_smallest_latency_that_so_many_took_no_longer_than(latencies: list[float]) -> None:
    latencies.sort()
    for quantile in quantiles(latencies):
        part = Fraction(str(quantile.part))
        covered = sum(one <= quantile.ms for one in latencies)
        smaller = sum(one < quantile.ms for one in latencies)
        assert covered >= part * len(latencies)
        assert smaller < part * len(latencies) or quantile.ms == latencies[0]


def test_without_latencies_there_are_no_quantiles() -> None:
    assert quantiles([]) == ()


def test_a_percentile_is_given_when_a_request_lies_beyond_it() -> None:
    points = quantiles([float(ms) for ms in range(1, 101)])
    assert latency_at(points, 0.99, 100) == 99.0
    assert latency_at(points, 0.99, 99) is None
    assert latency_at(points, 0.999, 100) is None
    assert latency_at(points, 0.42, 100) is None  # the generator did not report that one
