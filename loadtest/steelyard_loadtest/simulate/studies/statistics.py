"""Means of a few seeds, and how far the true mean may lie from them: Student's t intervals. Pure.

    mean +- t_{1-a/2, n-1} s / sqrt(n)

The distribution of t is a finite sum for whole degrees of freedom (Abramowitz and Stegun,
Handbook of Mathematical Functions, 26.7.3 and 26.7.4); its quantile is found by bisection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean of `count` values and half the width of its confidence interval; NaN for fewer than two."""

    mean: float
    half_width: float
    count: int


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean of values and its t interval; NaN values are left out.

    Raises ValueError for a confidence that is not between 0 and 1.
    """
    known = [value for value in values if not math.isnan(value)]
    count = len(known)
    if count == 0:
        return Interval(mean=math.nan, half_width=math.nan, count=0)
    mean = math.fsum(known) / count
    if count == 1:
        return Interval(mean=mean, half_width=math.nan, count=1)
    variance = math.fsum((value - mean) ** 2 for value in known) / (count - 1)
    t = t_quantile((1.0 + confidence) / 2.0, count - 1)
    return Interval(mean=mean, half_width=t * math.sqrt(variance / count), count=count)


def t_quantile(probability: float, degrees: int) -> float:
    """Return the t that a t-distributed figure stays below with a probability of 0.5 to 1.

    Raises ValueError for another probability, and for fewer degrees of freedom than 1.
    """
    if not 0.5 <= probability < 1 or degrees < 1:
        raise ValueError(
            f"a quantile of {probability:g} with {degrees} degrees of freedom; give 0.5..1 and >= 1"
        )
    within = 2.0 * probability - 1.0
    low, high = 0.0, 1.0
    while _within(high, degrees) < within:
        low, high = high, 2.0 * high
    # 60 halvings take any double to its last bit.
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, degrees) < within else (low, middle)
    return (low + high) / 2.0


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
