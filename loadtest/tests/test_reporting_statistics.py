"""Means and Student's t: against published quantiles."""

import math

import pytest
from steelyard_loadtest.reporting.statistics import interval, t_of


# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
@pytest.mark.parametrize(
    ("degrees", "t"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (19, 2.093), (100, 1.984)],
)
def test_t_is_the_published_one(degrees: int, t: float) -> None:
    assert t_of(degrees) == pytest.approx(t, abs=5e-4)


def test_interval_is_mean_and_t_times_standard_error() -> None:
    # The standard deviation of 1..5 is sqrt(2.5); t for 4 degrees is 2.776.
    mean = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean.mean == 3.0
    assert mean.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5), abs=1e-3)


def test_unknown_values_are_left_out() -> None:
    assert interval([math.nan, 4.0, 6.0]).mean == 5.0


def test_one_value_has_no_interval_and_none_no_mean() -> None:
    assert math.isnan(interval([7.0]).half_width)
    assert math.isnan(interval([]).mean)
