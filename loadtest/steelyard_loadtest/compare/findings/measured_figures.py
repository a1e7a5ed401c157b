"""What was measured here, as a finding asks for it: one figure of one algorithm at one level. Pure.

It comes from a comparison's summaries and from the data plane benchmark's CSV; metrics.toml, read once at
import, says what each figure is called.
"""

import math
import statistics
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from steelyard_loadtest.figures.summary import Summary
from steelyard_loadtest.reporting.statistics import grouped

Figures = Mapping[str, float]
"""Metric to value: the mean of the repeats, as the sources give it. One that is not known is not there."""

DATAPLANE = "dataplane"
"""Stands for a scenario: what `steelyard-loadtest dataplane` measured, at numbers of servers."""

_TABLES: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")
)
METRICS: Mapping[str, str] = _TABLES["names"]
UNITS: Mapping[str, str] = _TABLES["units"]

SLOW_SERVER = "server-10"
"""The one of scenario `slow-one` that answers ten times as late as the others."""


class LackingError(Exception):
    """Something that a finding is judged by was not measured; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The faster or the slower of some algorithms, by requests that succeeded: figures tell, not names."""

    algorithms: tuple[str, ...]
    pick: Literal["faster", "slower"]


Who = str | OneOf


def all_of(who: Who) -> tuple[str, ...]:
    """Return all algorithms that must be measured for it."""
    return (who,) if isinstance(who, str) else who.algorithms


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a figure stands; name: what the source calls the algorithm."""

    scenario: str
    algorithm: Who
    level: float
    name: str = ""


class Evidence:
    """All figures by (scenario, algorithm, level)."""

    def __init__(self, figures: Mapping[tuple[str, str, float], Figures]) -> None:
        self._figures = figures

    def values(self, metric: str, spots: Sequence[Spot]) -> list[float]:
        """Return the metric at each spot. Raises LackingError, which names every one that is not there."""
        wanted = [(spot.scenario, name, spot.level) for spot in spots for name in all_of(spot.algorithm)]
        absent = [key for key in wanted if key not in self._figures]
        if absent:
            raise LackingError(_listed(absent))
        unknown = [key for key in wanted if metric not in self._figures[key]]
        if unknown:
            raise LackingError(f"a {METRICS[metric]} of {_listed(unknown)}")
        return [self._value(metric, spot) for spot in spots]

    def levels(self, scenario: str, algorithms: Sequence[Who], low: float, high: float) -> tuple[float, ...]:
        """Return the levels from low to high at which all of them were measured, ascending.

        Raises LackingError when there is none.
        """
        names = [name for who in algorithms for name in all_of(who)]
        found = {
            level for name, _, level in self._figures
            if name == scenario and low <= level <= high
            and all((scenario, algorithm, level) in self._figures for algorithm in names)
        }  # fmt: skip
        if not found:
            wanted = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
            raise LackingError(f"{_code(names)} at {wanted} {UNITS[scenario]} in `{scenario}`")
        return tuple(sorted(found))

    def _value(self, metric: str, spot: Spot) -> float:
        if isinstance(spot.algorithm, str):
            return self._figures[spot.scenario, spot.algorithm, spot.level][metric]
        found = [self._figures[spot.scenario, name, spot.level] for name in spot.algorithm.algorithms]
        choose = max if spot.algorithm.pick == "faster" else min
        return choose(found, key=_succeeded)[metric]


def gather(summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None) -> Evidence:
    """Bring both into one form; `dataplane` is dataplane.csv by `csv.DictReader`."""
    figures = {
        (summary.scenario, summary.algorithm, summary.level): _figures(summary) for summary in summaries
    }
    return Evidence({**figures, **_dataplane(dataplane or ())})


def with_derived(figures: Figures) -> Figures:
    """Add what follows from the figures, where it is not there itself and can be known."""
    found = {
        name: factor * figures[over] / figures[under]
        for name, (over, under, factor) in _TABLES["derived"].items()
        if over in figures and figures.get(under)
    }
    return {**found, **figures}


def _figures(summary: Summary) -> Figures:
    """A summary's means, and what follows from them."""
    found = {name: spread.mean for name, spread in summary.metrics.items()}
    answered = [trial.shares for trial in summary.trials if trial.shares]
    if answered:
        found["largest_share"] = statistics.fmean(max(shares.values()) for shares in answered)
    slow = [shares[SLOW_SERVER] for shares in answered if SLOW_SERVER in shares]
    if slow:
        found["slow_share"] = statistics.fmean(slow)
    return with_derived(found)


def _dataplane(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, str, float], Figures]:
    """Medians of the rounds, as docs/benchmarks-dataplane.md gives them."""
    return {
        (DATAPLANE, contender, peers): {
            name: statistics.median(values)
            for column, name in _TABLES["dataplane"].items()
            if (values := [float(row[column]) for row in rounds if row[column]])
        }
        for (contender, peers), rounds in grouped(
            rows, lambda row: (row["contender"], float(row["peers"]))
        ).items()
    }


def _listed(keys: Sequence[tuple[str, str, float]]) -> str:
    """Name algorithms by level; all keys are of one scenario."""
    scenario = keys[0][0]
    levels = (
        f"{_code([name for _, name, _ in own])} at {level:g} {UNITS[scenario]}"
        for level, own in grouped(dict.fromkeys(keys), lambda key: key[2]).items()
    )
    return f"{', '.join(levels)} in `{scenario}`"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _succeeded(figures: Figures) -> float:
    return figures["requests_per_s"] - figures["failures_per_s"]
