"""Percentiles of the lab: p99 and its like, by nearest rank, of latencies in ascending order. Pure.

The simulator's interpolate, as the ns-3 study's do (`studies/measures.py` there); wrk has its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# In parts of 100,000.
WHOLE = 100_000
POINTS = (
    *(0, 1_000, 2_000, 5_000),
    *range(10_000, 90_000, 5_000),
    # From here on each decade of 1 - part has its points: as many to read off a logarithmic axis.
    *range(90_000, 99_000, 500),
    *range(99_000, 99_900, 50),
    *(99_900, 99_920, 99_950, 99_980, 99_990),
    WHOLE,
)

PARTS = tuple(point / WHOLE for point in POINTS)
"""At which parts of the requests a distribution is told, close together where the tail is: 62 points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A point of the latency distribution: `part` (0..1) of the requests took no longer than `ms`."""

    part: float
    ms: float


def nearest_rank(ordered: Sequence[float], part: float) -> float | None:
    """Return the nearest-rank percentile (part in 0..1) of ascending values; None if there are none."""
    if not ordered:
        return None
    # Parts are decimal fractions: 0.07 * 100 is more than 7 in floating point.
    return ordered[max(math.ceil(round(part * len(ordered), 9)), 1) - 1]


def quantiles(latencies_ms: Sequence[float]) -> tuple[Quantile, ...]:
    """Return the latencies at PARTS (the smallest that so many took no longer than); none: no quantiles.

    latencies_ms ascending, in milliseconds.
    """
    points = ((part, nearest_rank(latencies_ms, part)) for part in PARTS)
    return tuple(Quantile(part=part, ms=ms) for part, ms in points if ms is not None)


def latency_at(quantiles: Sequence[Quantile], part: float, succeeded: int) -> float | None:
    """Return what `part` (0..1) of the requests took at most, in ms; None when it is not known.

    It is known when the generator gave that very point and when at least one request
    lies beyond it: p99.9 of 500 requests would be their maximum under another name.
    """
    # The part is a decimal fraction: 1 / (1 - 0.99) is a little over 100.
    if part < 1 and succeeded < round(1 / (1 - part), 6):
        return None
    return next((point.ms for point in quantiles if math.isclose(point.part, part, abs_tol=1e-9)), None)
