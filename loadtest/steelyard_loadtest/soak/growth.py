"""How much a figure has grown over a stretch of time, whatever it did in between. Pure.

Two estimates, because each is blind to what the other sees:

    trend = span x median of (v_j - v_i) / (t_j - t_i) over all i < j      (Theil 1950, Sen 1968)
    rise  = median of the last fifth - median of the first fifth

Outliers move neither: up to 29 % of the values may be anything before the trend follows them. A step early on
that is never taken back hardly shows in the trend, but in the rise; what grows steadily shows in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

FIFTH = 5
"""A fifth of half a minute's readings is six: a median of fewer would be an outlier now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """begin, end: medians of the first and the last fifth. trend: over span_s, in the figure's unit."""

    begin: float
    end: float
    trend: float
    span_s: float

    @property
    def most(self) -> float:
        """Return the larger of the two estimates."""
        return max(self.trend, self.end - self.begin)

    @property
    def least(self) -> float:
        """Return the smaller of the two estimates."""
        return min(self.trend, self.end - self.begin)

    @property
    def trend_per_hour(self) -> float:
        """Return the trend as a rate."""
        return self.trend / self.span_s * 3600


def growth(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the growth of values at ascending times. Raises ValueError for fewer than two moments."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise ValueError("growth needs two moments at least")
    span_s = times_s[-1] - times_s[0]
    part = max(1, len(values) // FIFTH)
    return Growth(
        begin=median(values[:part]),
        end=median(values[-part:]),
        trend=theil_sen(times_s, values) * span_s,
        span_s=span_s,
    )


def theil_sen(times_s: Sequence[float], values: Sequence[float]) -> float:
    """Return the median slope over all pairs, per second; of ascending times."""
    at, value = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    first, second = np.triu_indices(len(at), k=1)
    apart = at[second] - at[first]
    differ = apart > 0
    return float(np.median((value[second] - value[first])[differ] / apart[differ]))
