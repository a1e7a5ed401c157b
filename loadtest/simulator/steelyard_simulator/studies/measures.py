"""Measures of studies: distances of shares, latencies; means over a trial's seeds; CSV, tables. Pure.

A share is a part of all requests. The distance of two lists of shares is the total variation
distance: the part of the requests that has to change servers to turn one list into the other.

    d(p, q) = 1/2 sum_j |p_j - q_j|          0: identical; 1: nothing in common

The servers' true capacities over time are the reference for published weights.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, TypeVar

import numpy as np
from steelyard_controller.laws.snapshot import Floats
from steelyard_loadtest.reporting.csv_text import names_of, rows_text
from steelyard_loadtest.reporting.markdown import markdown, pivot
from steelyard_loadtest.reporting.statistics import Interval, interval
from steelyard_loadtest.reporting.wording import plus_minus

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.simulated_server import able_at, speed_edges

C = TypeVar("C")
R = TypeVar("R")
S = TypeVar("S")

Figures = Mapping[str, float]
"""One run's figure of each measure."""

Runs = Mapping[Any, Sequence[Figures]]
"""By trial, the figures of each of its seeds."""

Measures = Mapping[str, Interval]
"""A trial's mean of each measure over its seeds, with its interval."""


def averaged(runs: Mapping[C, Sequence[Figures]]) -> dict[C, Measures]:
    """Return every trial's measures from the runs with each of its seeds."""
    return {
        trial: {name: interval([each[name] for each in own]) for name in own[0]}
        for trial, own in runs.items()
    }


def runs_csv(runs: Runs, first_seed: int) -> str:
    """Return a line for each trial (a dataclass) and seed; the same seed gives the same line."""
    (trial, (figures, *_)), *_ = runs.items()
    rows = [
        (*astuple(trial), seed, *each.values())
        for trial, own in runs.items()
        for seed, each in enumerate(own, first_seed)
    ]
    return rows_text((*names_of(type(trial)), "seed", *figures), rows, digits=6)


def texts(points: Mapping[C, Measures], measure: str, scale: float, digits: int) -> dict[C, str]:
    """Return a measure of every point, times `scale`, with its interval."""
    intervals = {at: its[measure] for at, its in points.items()}
    return {at: plus_minus(scale * of.mean, scale * of.half_width, digits) for at, of in intervals.items()}


def table_of(title: str, corner: str, texts: Mapping[tuple[R, S], str]) -> str:
    """Return a Markdown table under its title, from texts by row and column, in the order of the texts."""
    rows, columns = (list(dict.fromkeys(axis)) for axis in zip(*texts, strict=True))
    table = pivot(
        corner, rows, columns, lambda *at: texts.get(at, ""),
        row_text=lambda row: f"{row:,}" if isinstance(row, int) else str(row),
    )  # fmt: skip
    return f"**{title}**\n\n{markdown(table)}"


def percentile_ms(result: RunResult, percent: float) -> float:
    """Return a percentile of the latencies, interpolated; NaN if nothing was answered."""
    return float(np.percentile(result.latency_ms, percent)) if len(result.latency_ms) else math.nan


def p99_by(result: RunResult, step_s: float, until_s: float) -> list[float]:
    """Return the p99 of requests sent in each step of time, in milliseconds; NaN without answers."""
    sent = np.argsort(result.sent_s)
    ends = np.searchsorted(result.sent_s[sent], np.arange(step_s, until_s, step_s))
    steps = np.split(result.latency_ms[sent], ends)
    return [float(np.percentile(each, 99)) if len(each) else math.nan for each in steps]


def shares(figures: Floats) -> Floats:
    """Return figures (weights, capacities, counts; any rows by k servers) as parts of their row's sum.

    A row that sums to 0 has no shares: NaN.
    """
    totals = figures.sum(axis=-1, keepdims=True)
    parts: Floats = figures / np.where(totals > 0, totals, np.nan)
    return parts


def misplaced(given: Floats, wanted: Floats) -> float:
    """Return d, averaged over the rows: the part of the requests at the wrong server."""
    return float(np.mean(0.5 * np.abs(given - wanted).sum(axis=-1)))


def moved(given: Floats) -> float:
    """Return d between a tick's shares and the next one's, averaged: the part of the traffic that moves.

    `given` is ticks by servers; NaN for fewer than two ticks.
    """
    return misplaced(given[1:], given[:-1]) if len(given) > 1 else math.nan


def swing(given: Floats) -> float:
    """Return the swing of shares about their mean: sqrt(2) times the root mean square of d, over the ticks.

    `given` is ticks by servers. For a sine this is its amplitude, and unlike a peak it does not grow with the
    number of ticks. 0: the shares do not move; 0.2: a fifth of all traffic moves to and fro.
    """
    distances = 0.5 * np.abs(given - given.mean(axis=0)).sum(axis=-1)
    return float(np.sqrt(2.0 * np.mean(distances**2)))


def expected_of_random(wanted: Floats, requests: int) -> float:
    """Return the average d of independent random picks by the right shares; NaN without requests.

    A server's count is binomial. In the normal approximation its mean absolute deviation is
    sqrt(2 p (1 - p) / (pi n)) of the requests.
    """
    if requests <= 0:
        return math.nan
    return float(0.5 * np.sqrt(2.0 * wanted * (1.0 - wanted) / (np.pi * requests)).sum())


def capacities(case: Case, at_s: Floats) -> Floats:
    """Return every server's capacity in requests a second at these times: times by servers."""
    table = np.empty((len(at_s), len(case.servers)))
    for column, server in enumerate(case.servers):
        edges = speed_edges(server)
        able = np.array([able_at(server, case.work, edge) for edge in edges])
        table[:, column] = able[np.searchsorted(edges, at_s, side="right") - 1]
    return table
