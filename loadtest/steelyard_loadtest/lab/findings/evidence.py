"""What was measured here, as a finding asks for it: one figure of one algorithm at one level. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Figures = Mapping[str, float]
"""Metric to value: the mean of the repeats, as the sources give it. One that is not known is not there."""

DATAPLANE = "dataplane"
"""Stands for a scenario: what `steelyard-loadtest dataplane` measured, at numbers of servers."""

UNITS = {"report": "users", "paper": "users", "proxy-cost": "connections", "slow-one": "requests/s",
         DATAPLANE: "servers"}  # fmt: skip
METRICS = {
    "requests_per_s": "requests/s",
    "failures_per_s": "failures/s",
    "failures_part": "failed part of the requests",
    "mean_ms": "mean latency",
    "min_ms": "minimum latency",
    "p50_ms": "median latency",
    "p90_ms": "P90",
    "p99_ms": "P99",
    "p99_over_p50": "P99 over the median",
    "max_ms": "maximum latency",
    "concurrency": "actual concurrency",
    "largest_share": "share of the busiest server",
    "slow_share": "share of the slow server",
    "balancer_cpu_us_per_request": "CPU of the proxy per request",
}


class LackingError(Exception):
    """Something that a finding is judged by was not measured; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The faster or the slower of some algorithms, by requests that succeeded: figures tell, not names."""

    algorithms: tuple[str, ...]
    pick: Literal["faster", "slower"]


Who = str | OneOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a figure stands."""

    scenario: str
    algorithm: Who
    level: float

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Return all that must be measured for it."""
        return (self.algorithm,) if isinstance(self.algorithm, str) else self.algorithm.algorithms


class Evidence:
    """All figures by (scenario, algorithm, level)."""

    def __init__(self, figures: Mapping[tuple[str, str, float], Figures]) -> None:
        self._figures = figures

    def values(self, metric: str, spots: Sequence[Spot]) -> list[float]:
        """Return the metric at each spot. Raises LackingError, which names every one that is not there."""
        wanted = [(spot.scenario, name, spot.level) for spot in spots for name in spot.algorithms]
        absent = [key for key in wanted if key not in self._figures]
        if absent:
            raise LackingError(_listed(absent))
        unknown = [key for key in wanted if metric not in self._figures[key]]
        if unknown:
            raise LackingError(f"a {METRICS[metric]} of {_listed(unknown)}")
        return [self._value(metric, spot) for spot in spots]

    def levels(self, scenario: str, algorithms: Sequence[str], low: float, high: float) -> tuple[float, ...]:
        """Return the levels from low to high at which all of them were measured, ascending.

        Raises LackingError when there is none.
        """
        found = {
            level for name, _, level in self._figures
            if name == scenario and low <= level <= high
            and all((scenario, algorithm, level) in self._figures for algorithm in algorithms)
        }  # fmt: skip
        if not found:
            wanted = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
            raise LackingError(f"{_code(algorithms)} at {wanted} {UNITS[scenario]} in `{scenario}`")
        return tuple(sorted(found))

    def _value(self, metric: str, spot: Spot) -> float:
        if isinstance(spot.algorithm, str):
            return self._figures[spot.scenario, spot.algorithm, spot.level][metric]
        found = [self._figures[spot.scenario, name, spot.level] for name in spot.algorithm.algorithms]
        choose = max if spot.algorithm.pick == "faster" else min
        return choose(found, key=_succeeded)[metric]


def _listed(keys: Sequence[tuple[str, str, float]]) -> str:
    """Name algorithms by level; all keys are of one scenario."""
    by_level: dict[float, list[str]] = {}
    for _, algorithm, level in dict.fromkeys(keys):
        by_level.setdefault(level, []).append(algorithm)
    scenario = keys[0][0]
    levels = (f"{_code(names)} at {level:g} {UNITS[scenario]}" for level, names in by_level.items())
    return f"{', '.join(levels)} in `{scenario}`"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _succeeded(figures: Figures) -> float:
    return figures["requests_per_s"] - figures["failures_per_s"]
