"""The stability maps' figures: how far shares swing when all should be at rest. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard_loadtest.simulate.model import Case, RunResult
from steelyard_loadtest.simulate.studies.capacities import capacities
from steelyard_loadtest.simulate.studies.shares import misplaced, shares, swing
from steelyard_loadtest.simulate.studies.stability.grid import StabilityCell, Variant
from steelyard_loadtest.simulate.studies.statistics import Interval, interval

SETTLED = 0.2
"""Counting noise alone makes a law without a memory swing by up to 17 % of all traffic here (cswrr, ticks
of a quarter second); loops that are unstable swing by 30 % and more. The line is between them."""

LAST_PART = 1 / 3
"""Of the run: long after the change, so that a law that settles has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run in its last third.

    swing       part of all traffic that goes to and fro (`shares.swing`)
    misplaced   part of the traffic at the wrong server: a law may stand still and be wrong
    """

    swing: float
    misplaced: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of a map, over the seeds."""

    cell: StabilityCell
    swing: Interval
    misplaced: Interval
    p99_ms: Interval

    @property
    def settled(self) -> bool:
        """Tell whether the shares stand still here."""
        return self.swing.mean < SETTLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Maps:
    """The points of the three maps, of all laws."""

    delay: Sequence[Point]
    mismatch: Sequence[Point]
    gain: Sequence[Point]

    def of(self, variant: Variant) -> "Maps":
        """Return one law's."""
        return Maps(
            **{
                name: [point for point in points if point.cell.variant == variant.name]
                for name, points in (("delay", self.delay), ("mismatch", self.mismatch), ("gain", self.gain))
            }
        )


def figures_of(case: Case, result: RunResult) -> Figures:
    """Sum up the last third of a run."""
    ticks = result.ticks
    last = ticks.t_s > case.duration_s * (1 - LAST_PART)
    weights = ticks.weights[last]
    right = shares(capacities(case, ticks.t_s[last]))
    return Figures(
        swing=swing(weights),
        misplaced=misplaced(weights, right),
        p99_ms=float(np.percentile(result.latency_ms, 99)) if len(result.latency_ms) else math.nan,
    )


def point(cell: StabilityCell, runs: Sequence[Figures]) -> Point:
    """Average the seeds of a cell."""
    return Point(
        cell=cell,
        swing=interval([each.swing for each in runs]),
        misplaced=interval([each.misplaced for each in runs]),
        p99_ms=interval([each.p99_ms for each in runs]),
    )
