"""Repeats as one figure: median, range, deviation, Student's t interval; and items by a key. Pure.

    mean +- t_{1-a/2, n-1} s / sqrt(n)

The distribution of t is a finite sum for whole degrees of freedom (Abramowitz and Stegun,
Handbook of Mathematical Functions, 26.7.3 and 26.7.4); its quantile is found by bisection.
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over repeats. sigma: None when there was one repeat, or one of them has no end."""

    mean: float
    sigma: float | None
    median: float
    lowest: float
    highest: float

    def overlaps(self, other: "Spread") -> bool:
        """Say whether the two ranges have a value in common."""
        return self.lowest <= other.highest and other.lowest <= self.highest


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean of `count` values and half the width of its confidence interval; NaN for fewer than two."""

    mean: float
    half_width: float
    count: int


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by key, keys and items in the order in which they first came."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def spread(values: Iterable[float]) -> Spread:
    """Summarize at least one value.

    sigma is the sample deviation (over n - 1), which is the locust study's: its table 4
    has 5.77, which three medians that locust rounds to tens give so and not over n.
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
    """Summarize a figure of those items that know it; None when no item does."""
    known = [value for item in items if (value := figure(item)) is not None]
    return spread(known) if known else None


def nearest_rank(ordered: Sequence[float], part: float) -> float | None:
    """Return the nearest-rank percentile (part in 0..1) of ascending values; None if there are none."""
    if not ordered:
        return None
    # Parts are decimal fractions: 0.07 * 100 is more than 7 in floating point.
    return ordered[max(math.ceil(round(part * len(ordered), 9)), 1) - 1]


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of values and its t interval at CONFIDENCE; NaN values are left out."""
    known = [value for value in values if not math.isnan(value)]
    count, half_width = len(known), math.nan
    if count > 1:
        t = t_quantile((1.0 + CONFIDENCE) / 2.0, count - 1)
        half_width = t * statistics.stdev(known) / math.sqrt(count)
    return Interval(mean=statistics.fmean(known) if known else math.nan, half_width=half_width, count=count)


def t_quantile(probability: float, degrees: int) -> float:
    """Return the t that a t-distributed figure stays below with a probability from 0.5 to less than 1."""
    # To 12 decimals, and far enough for any probability that a double tells from 1.
    steps = range(1 << 62)
    return (
        bisect_left(steps, 2.0 * probability - 1.0, key=lambda step: _within(step / 2**40, degrees)) / 2**40
    )


def _within(t: float, degrees: int) -> float:
    """Return the probability of being within -t..t."""
    theta = math.atan2(t, math.sqrt(degrees))
    cosine, sine = math.cos(theta), math.sin(theta)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for i in range(1 + odd, degrees - 1, 2):
        total += term
        term *= cosine * cosine * i / (i + 1)
    total += term if degrees > 1 else 0.0
    return 2.0 / math.pi * (theta + sine * total) if odd else sine * total
