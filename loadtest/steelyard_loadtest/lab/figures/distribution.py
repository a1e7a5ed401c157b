"""The latency distribution of a cell's repeats as one line. Pure."""

import statistics
from collections.abc import Sequence

from steelyard_loadtest.lab.figures import latency
from steelyard_loadtest.lab.records import Measured, Quantile


def distribution(repeats: Sequence[Measured]) -> list[Quantile]:
    """Return the median over the repeats at every part that each of them knows, ascending."""
    known = [
        {
            point.part: point.ms
            for point in entry.outcome.quantiles
            if latency.at([point], point.part, entry.outcome.requests - entry.outcome.failures) is not None
        }
        for entry in repeats
    ]
    parts = set.intersection(*(set(points) for points in known)) if known else set()
    return [
        Quantile(part=part, ms=statistics.median(points[part] for points in known)) for part in sorted(parts)
    ]
