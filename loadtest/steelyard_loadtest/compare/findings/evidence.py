"""Measurements for a source's findings: figures of algorithms at levels. Pure.

They come from a comparison's summaries and from the data plane benchmark's CSV.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from steelyard_loadtest.figures.trial_figures import Summary
from steelyard_loadtest.reporting.statistics import grouped

METRICS = {
    "requests_per_s": "requests/s",
    "failures_per_s": "failures/s",
    "failures_part": "failed part of the requests",
    "mean_ms": "mean latency",
    "min_ms": "minimum latency",
    "p50_ms": "median latency",
    "p90_ms": "P90",
    "p99_ms": "P99",
    "p999_ms": "P99.9",
    "p99_over_p50": "P99 over the median",
    "max_ms": "maximum latency",
    "concurrency": "actual concurrency",
    "largest_share": "share of the busiest server",
    "slow_share": "share of the slow server",
    "balancer_cpu_us_per_request": "CPU of the proxy per request",
}
"""Names of the figures on the page."""

DERIVED = {
    "failures_part": ("failures_per_s", "requests_per_s", 1.0),
    "p99_over_p50": ("p99_ms", "p50_ms", 1.0),
    "balancer_cpu_us_per_request": ("balancer_cpu_cores", "requests_per_s", 1e6),
}
"""Figures derived from two others: one over the other, times a factor."""

DATAPLANE = "dataplane"
"""Stands for a scenario: the measurements of `steelyard-loadtest dataplane`, at numbers of servers."""

SLOW_SERVER = "server-10"
"""The server of scenario `slow-one` that answers ten times as late as the others."""

Figures = Mapping[str, float]
"""Metric to value: the mean of the repeats, as in the sources. Unknown metrics are absent."""

World = Mapping[tuple[str, str, float], Figures]
"""All figures by scenario, algorithm and level."""


class LackingError(Exception):
    """A measurement that a finding needs is missing; the text names it."""


class Terms(NamedTuple):
    """The meaning of a source's names and figures; unit: of its levels.

    algorithms: our algorithm for each of its names. `the faster of A and B` is decided by successful
    requests, because only figures tell. published: its figures by its name, level and metric.
    """

    scenario: str
    unit: str
    algorithms: Mapping[str, str]
    published: Mapping[str, Mapping[float, Figures]] = {}


class Spot(NamedTuple):
    """The place of a figure: an algorithm at a level (low = high) or at all measured ones from low to high.

    For `nginx (there: vproxy)` the published figures are vproxy's, which nginx replaces.
    """

    name: str
    low: float
    high: float

    def algorithm(self, terms: Terms) -> str:
        """Return our algorithm for the name. Raises KeyError."""
        return terms.algorithms[self.name.partition(" (there: ")[0]]

    def ours(self, terms: Terms) -> list[str]:
        """Return all algorithms that must be measured for it. Raises KeyError."""
        return self.algorithm(terms).rpartition(" of ")[2].split(" and ")

    def theirs(self, terms: Terms) -> Figures:
        """Return the published figures."""
        there = self.name.partition(" (there: ")[2].removesuffix(")")
        return terms.published.get(there or self.name, {}).get(self.low, {})


def measured(metric: str, spots: Sequence[Spot], terms: Terms, world: World) -> dict[float, list[float]]:
    """Return the metric of every spot by level, ascending; spots at single levels go by the first's.

    Raises LackingError, which names everything that is missing.
    """
    levels = _shared_levels(spots, terms, world)
    at = [[spot.low] if spot.low == spot.high else levels for spot in spots]
    wanted = [
        [
            [(terms.scenario, name, level) for name in spot.ours(terms)]
            for spot, level in zip(spots, row, strict=True)
        ]
        for row in zip(*at, strict=True)
    ]
    every = [key for row in wanted for keys in row for key in keys]
    if absent := [key for key in every if key not in world]:
        raise LackingError(_listed(absent, terms.unit))
    if unknown := [key for key in every if metric not in world[key]]:
        raise LackingError(f"a {METRICS[metric]} of {_listed(unknown, terms.unit)}")
    rows = (
        [
            _chosen([world[key] for key in keys], spot, terms)[metric]
            for spot, keys in zip(spots, row, strict=True)
        ]
        for row in wanted
    )
    return dict(zip(at[0], rows, strict=True))


def gather(summaries: Iterable[Summary], dataplane: Sequence[Mapping[str, str]] | None) -> World:
    """Combine both; `dataplane` is dataplane.csv by `csv.DictReader`."""
    compared = {(one.scenario, one.algorithm, one.level): _means(one) for one in summaries}
    by_servers = grouped(dataplane or (), lambda row: (row["algorithm"], float(row["level"])))
    return compared | {(DATAPLANE, *key): _medians(rounds) for key, rounds in by_servers.items()}


def with_derived(figures: Figures) -> Figures:
    """Add figures that follow from the others, unless they are there or cannot be known."""
    derived = {
        name: factor * figures[over] / figures[under]
        for name, (over, under, factor) in DERIVED.items()
        if over in figures and figures.get(under)
    }
    return {**derived, **figures}


def _shared_levels(spots: Sequence[Spot], terms: Terms, world: World) -> list[float]:
    """Return the levels from low to high at which all were measured; none for spots at single levels."""
    _, low, high = spots[0]
    names = [name for spot in spots for name in spot.ours(terms)]
    levels = {level for scenario, _, level in world if scenario == terms.scenario and low <= level <= high}
    shared = {level for level in levels if all((terms.scenario, name, level) in world for name in names)}
    if not shared and low < high:
        wanted = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
        raise LackingError(f"{_code(names)} at {wanted} {terms.unit} in `{terms.scenario}`")
    return sorted(shared)


def _chosen(figures: Sequence[Figures], spot: Spot, terms: Terms) -> Figures:
    if len(figures) == 1:
        return figures[0]
    choose = max if spot.algorithm(terms).startswith("the faster of ") else min
    return choose(figures, key=lambda one: one["requests_per_s"] - one["failures_per_s"])


def _means(summary: Summary) -> Figures:
    """Return a summary's means, and the derived figures."""
    means = {name: spread.mean for name, spread in summary.metrics.items()}
    answered = [trial.shares for trial in summary.trials if trial.shares]
    if answered:
        means["largest_share"] = statistics.fmean(max(shares.values()) for shares in answered)
    if slow := [shares[SLOW_SERVER] for shares in answered if SLOW_SERVER in shares]:
        means["slow_share"] = statistics.fmean(slow)
    return with_derived(means)


def _medians(rounds: Sequence[Mapping[str, str]]) -> Figures:
    """Return medians of the rounds, as in docs/research/benchmarks-dataplane.md."""
    return {
        name: statistics.median(values)
        for name in METRICS
        if (values := [float(row[name]) for row in rounds if row.get(name)])
    }


def _listed(keys: Sequence[tuple[str, str, float]], unit: str) -> str:
    """Name algorithms by level; all keys are of one scenario."""
    by_level = grouped(dict.fromkeys(keys), lambda key: key[2])
    levels = (f"{_code([key[1] for key in own])} at {level:g} {unit}" for level, own in by_level.items())
    return f"{', '.join(levels)} in `{keys[0][0]}`"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
