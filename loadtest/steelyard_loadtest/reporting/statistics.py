"""Repeats as one figure: median, range, deviation, Student's t interval; and items by a key. Pure.

    mean +- t_{1-a/2, n-1} s / sqrt(n)

t is a table for few degrees of freedom, and for more Abramowitz and Stegun's 26.7.5 (Handbook of
Mathematical Functions), which is off by less than 1e-5 there.
"""

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

CONFIDENCE = 0.95
T_OF_FEW = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
"""At CONFIDENCE, for 1 to 9 degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over repeats. sigma: None with one repeat, or with an infinite one."""

    mean: float
    sigma: float | None
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and half the width of its confidence interval; NaN with fewer than two values."""

    mean: float
    half_width: float


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by key, keys and items in the order in which they first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def spread(values: Iterable[float]) -> Spread:
    """Summarize at least one value.

    sigma is the sample deviation (over n - 1), as in the locust study. Its table 4 has 5.77, which three
    medians rounded to tens give this way and not over n.
    """
    known = list(values)
    finite = all(math.isfinite(value) for value in known)
    return Spread(
        mean=statistics.fmean(known),
        sigma=statistics.stdev(known) if finite and len(known) > 1 else None,
        median=statistics.median(known),
        lowest=min(known),
        highest=max(known),
    )


def spread_of(items: Iterable[T], figure: Callable[[T], float | None]) -> Spread | None:
    """Summarize a figure of the items that know it; None if no item does."""
    known = [value for item in items if (value := figure(item)) is not None]
    return spread(known) if known else None


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of values and its t interval at CONFIDENCE; NaN values are left out."""
    known = [value for value in values if not math.isnan(value)]
    count, half_width = len(known), math.nan
    if count > 1:
        half_width = t_of(count - 1) * statistics.stdev(known) / math.sqrt(count)
    return Interval(mean=statistics.fmean(known) if known else math.nan, half_width=half_width)


def t_of(degrees: int) -> float:
    """Return the t for which a t-distributed figure is within -t and t with CONFIDENCE."""
    if degrees <= len(T_OF_FEW):
        return T_OF_FEW[degrees - 1]
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
