"""The scale study's figures: one simulation summed up, and seeds averaged. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
from steelyard_controller.snapshot import Floats

from steelyard_loadtest.simulate.model import Case, RunResult
from steelyard_loadtest.simulate.studies.capacities import capacities
from steelyard_loadtest.simulate.studies.scale.grid import ScaleCell
from steelyard_loadtest.simulate.studies.shares import expected_of_random, misplaced, moved, shares
from steelyard_loadtest.simulate.studies.statistics import Interval, interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run after its warm-up.

    published_error   part of the traffic that the published weights send to the wrong server (d against the
                      true capacities at the moment of publishing)
    achieved_error    part of the requests that went elsewhere than the published weights say
    random_error      what independent random picks by the same weights would have missed
    moved             part of the traffic that a table moves against the one before, a tick
    rows_changed      part of a table's rows whose weight is not what it was a tick before
    rows_changed_5    the same, counting only weights that changed by more than 5 %
    """

    published_error: float
    achieved_error: float
    random_error: float
    moved: float
    rows_changed: float
    rows_changed_5: float
    mean_ms: float
    p50_ms: float
    p99_ms: float


UNITS: Mapping[str, str] = {
    "published_error": "part of traffic",
    "achieved_error": "part of requests",
    "random_error": "part of requests",
    "moved": "part of traffic a tick",
    "rows_changed": "part of rows a tick",
    "rows_changed_5": "part of rows a tick",
    "mean_ms": "ms",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "p99_ratio": "to one load balancer",
}

MEASURES = tuple(each.name for each in fields(Figures))


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up a run; only what came after the warm-up counts."""
    ticks = result.ticks
    after = ticks.t_s > case.warmup_s
    weights = ticks.weights[after]
    picks = ticks.picks[after].sum(axis=0)
    # What is published at the end of a tick rules the next one, so the last table ruled no counted request.
    ruling = np.flatnonzero(after) - 1
    ruled = ticks.weights[ruling[ruling >= 0]].mean(axis=0)
    return Figures(
        published_error=misplaced(weights, shares(capacities(case, ticks.t_s[after]))),
        achieved_error=misplaced(shares(picks.astype(float))[None, :], ruled[None, :]),
        random_error=expected_of_random(ruled, int(picks.sum())),
        moved=moved(weights),
        rows_changed=_changed(weights, 0.0),
        rows_changed_5=_changed(weights, 0.05),
        mean_ms=float(np.mean(result.latency_ms)) if len(result.latency_ms) else float("nan"),
        p50_ms=_percentile(result, 50),
        p99_ms=_percentile(result, 99),
    )


def _changed(weights: Floats, by_more_than: float) -> float:
    # Shares, not integers: a table is divided by its gcd, and that may change with no weight moving.
    ratio = weights[1:] / weights[:-1]
    # Shares are quotients of integers; a part in 10^9 is how they were rounded.
    return float(np.mean(np.abs(ratio - 1.0) > max(by_more_than, 1e-9)))


def _percentile(result: RunResult, percent: float) -> float:
    return float(np.percentile(result.latency_ms, percent)) if len(result.latency_ms) else float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the grid: every measure with its interval over the seeds."""

    cell: ScaleCell
    measures: Mapping[str, Interval]


def points(cells: Sequence[ScaleCell], runs: Mapping[ScaleCell, Sequence[Figures]]) -> list[Point]:
    """Average the seeds of every cell, in ascending order of servers, load balancers and picker.

    `p99_ratio` is against one load balancer with the same servers, picker and seed, where that was run.
    """
    alone = {
        (cell.servers, cell.picker): [each.p99_ms for each in runs[cell]]
        for cell in cells
        if cell.load_balancers == 1
    }
    found = []
    for cell in sorted(cells, key=lambda each: (each.servers, each.load_balancers, each.picker)):
        columns = zip(*(astuple(each) for each in runs[cell]), strict=True)
        measures = {name: interval(column) for name, column in zip(MEASURES, columns, strict=True)}
        base = alone.get((cell.servers, cell.picker))
        if base is not None:
            measures["p99_ratio"] = interval(
                [each.p99_ms / first for each, first in zip(runs[cell], base, strict=True)]
            )
        found.append(Point(cell=cell, measures=measures))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TickCpu:
    """Median CPU milliseconds of a controller's tick: of the law's step, and of everything."""

    servers: int
    load_balancers: int
    law_ms: float
    tick_ms: float
