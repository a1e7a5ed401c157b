"""The repeats of a cell as one: mean, deviation, median and range of every figure. Pure."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard_loadtest.lab.figures.cell import CellFigures

METRICS = (
    "requests", "failures", "failures_part", "requests_per_s", "succeeded_per_s", "failures_per_s",
    "p50_ms", "p75_ms", "p90_ms", "p99_ms", "p999_ms", "mean_ms", "min_ms", "max_ms", "concurrency",
    "generator_cpu_utilization", "balancer_cpu_us_per_request", "balancer_cpu_cores",
    "max_over_mean_utilization", "jain_utilization", "settle_s", "settle_after_event_s", "oscillation",
)  # fmt: skip
"""The figures of CellFigures that can be averaged."""


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
class Summary:
    """All repeats of one algorithm at one level. A metric that no repeat knows is not in `metrics`."""

    scenario: str
    algorithm: str
    level: float
    cells: tuple[CellFigures, ...]
    metrics: Mapping[str, Spread]

    @property
    def failures_part(self) -> float:
        """Return the failures of all repeats over the requests of all, 0..1."""
        requests = sum(cell.requests for cell in self.cells)
        return sum(cell.failures for cell in self.cells) / requests if requests else 0.0


def spread(values: Sequence[float]) -> Spread:
    """Summarize at least one value.

    sigma is the sample deviation (over n - 1), which is the locust study's: its table 4
    has 5.77, which three medians that locust rounds to tens give so and not over n.
    """
    finite = all(math.isfinite(value) for value in values)
    return Spread(
        mean=statistics.fmean(values),
        sigma=statistics.stdev(values) if finite and len(values) > 1 else None,
        median=statistics.median(values),
        lowest=min(values),
        highest=max(values),
    )


def summarize(figures: Iterable[CellFigures]) -> list[Summary]:
    """Put the repeats together, in the order in which scenario, level and algorithm first came."""
    groups: dict[tuple[str, float, str], list[CellFigures]] = {}
    for cell in figures:
        groups.setdefault((cell.scenario, cell.level, cell.algorithm), []).append(cell)
    return [
        Summary(
            scenario=scenario,
            algorithm=algorithm,
            level=level,
            cells=tuple(cells),
            metrics={name: spread(values) for name in METRICS if (values := _values(cells, name))},
        )
        for (scenario, level, algorithm), cells in groups.items()
    ]


def _values(cells: Sequence[CellFigures], metric: str) -> list[float]:
    return [float(value) for cell in cells if (value := getattr(cell, metric)) is not None]
