"""Points of a latency distribution, close together where the tail is. Pure."""

from collections.abc import Sequence

from steelyard_loadtest.lab.records import Quantile

# In parts of 100,000, so that ranks are exact: 0.07 * 100 is more than 7 in floating point.
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
"""At which parts of the requests a distribution is told: 62 points."""


def quantiles(latencies_ms: Sequence[float]) -> tuple[Quantile, ...]:
    """Return the latencies at PARTS by nearest rank (the smallest that so many took no longer than).

    latencies_ms ascending, in milliseconds; none: no quantiles.
    """
    if not latencies_ms:
        return ()
    return tuple(
        Quantile(part=part, ms=latencies_ms[_rank(point, len(latencies_ms)) - 1])
        for part, point in zip(PARTS, POINTS, strict=True)
    )


def _rank(point: int, count: int) -> int:
    return max(-(-point * count // WHOLE), 1)
