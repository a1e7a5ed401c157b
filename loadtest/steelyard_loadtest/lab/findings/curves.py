"""Comparisons of whole curves, a figure over the levels of a scenario, each with its rule. Pure.

The entropy paper prints line charts without figures and describes them in words,
so these are judged on whichever of its levels were measured.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.lab.findings.evidence import METRICS, UNITS, Evidence, LackingError, Spot
from steelyard_loadtest.lab.findings.finding import Answer, Grade
from steelyard_loadtest.lab.findings.grades import ALIKE, NOISE, Best, alike, apart, number, over_best, part


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """A figure of some algorithms (the source's name to ours) at the levels from low to high."""

    scenario: str
    metric: str
    names: Mapping[str, str]
    low: float = 0.0
    high: float = math.inf

    def __str__(self) -> str:
        unit = UNITS[self.scenario]
        at = f"{self.low:g} to {self.high:g} {unit}"
        if self.low <= 0:
            at = f"up to {self.high:g} {unit}" if self.high < math.inf else f"all numbers of {unit}"
        elif self.high == math.inf:
            at = f"{self.low:g} {unit} and more"
        return f"{METRICS[self.metric]} of {', '.join(self.names)} at {at}"

    def read(self, evidence: Evidence) -> dict[str, dict[float, float]]:
        """Return for each name its value by level, ascending. Raises LackingError."""
        levels = evidence.levels(self.scenario, tuple(self.names.values()), self.low, self.high)
        return {
            name: dict(zip(levels, evidence.values(self.metric, self._spots(ours, levels)), strict=True))
            for name, ours in self.names.items()
        }

    def _spots(self, algorithm: str, levels: Sequence[float]) -> list[Spot]:
        return [Spot(scenario=self.scenario, algorithm=algorithm, level=level) for level in levels]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeAlong:
    """All curves run together: judged where they are farthest apart."""

    curves: Curves
    theirs: str

    @property
    def figure(self) -> str:
        """Name the curves."""
        return f"largest / smallest {self.curves}"

    @property
    def rule(self) -> str:
        """Give the bound."""
        return f"≤ {number(ALIKE)} at every level"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade the level at which they are farthest apart."""
        curves = list(self.curves.read(evidence).values())
        values = {level: [curve[level] for curve in curves] for level in curves[0]}
        worst = max(values, key=lambda level: apart(values[level]))
        answer = alike(values[worst])
        return Answer(here=f"{answer.here} at {worst:g}", grade=answer.grade)


@dataclass(frozen=True, slots=True, kw_only=True)
class BestAlong:
    """One curve is above (or below) all others: judged by the number of levels at which it is."""

    curves: Curves
    candidate: str
    best: Best
    theirs: str
    margin: float = 1.0
    """How far beyond the best of the others it must be."""

    @property
    def figure(self) -> str:
        """Name the candidate and the curves."""
        return f"levels with {self.candidate} {self.best}: {self.curves}"

    @property
    def rule(self) -> str:
        """Say at how many levels, and by how much."""
        return "all levels" if self.margin == 1 else f"all levels, × {number(self.margin)}"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade: best at all levels, at half of them or more (`partly`), or at fewer."""
        curves = self.curves.read(evidence)
        ours = curves.pop(self.candidate)
        ratios = {
            level: over_best(value, [other[level] for other in curves.values()], self.best)
            for level, value in ours.items()
        }
        won = sum(self._beyond(ratio) for ratio in ratios.values())
        listed = ", ".join(f"{number(ratio)} at {level:g}" for level, ratio in ratios.items())
        return Answer(
            here=f"{won} of {len(ratios)} (over the {self.best} other: {listed})",
            grade=part(won, len(ratios)),
        )

    def _beyond(self, ratio: float) -> bool:
        return ratio >= self.margin if self.best == "highest" else ratio * self.margin <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakBetween:
    """Every curve has its highest point between two levels. curves: with levels on both sides."""

    curves: Curves
    low: float
    high: float
    theirs: str

    @property
    def figure(self) -> str:
        """Name the curves."""
        return f"level of the highest {self.curves}"

    @property
    def rule(self) -> str:
        """Give the levels."""
        return f"{self.low:g} to {self.high:g} for each"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade by the number of curves of which it is so."""
        curves = self.curves.read(evidence)
        levels = list(next(iter(curves.values())))
        for what, there in (
            (f"a level under {self.low:g}", levels[0] < self.low),
            (f"a level from {self.low:g} to {self.high:g}", any(map(self._within, levels))),
            (f"a level over {self.high:g}", levels[-1] > self.high),
        ):
            if not there:
                raise LackingError(f"{what} (`{self.curves.scenario}`)")
        peaks = {name: max(curve, key=lambda level: curve[level]) for name, curve in curves.items()}
        found = sum(map(self._within, peaks.values()))
        return Answer(
            here=", ".join(f"{name} {level:g}" for name, level in peaks.items()),
            grade=part(found, len(peaks)),
        )

    def _within(self, level: float) -> bool:
        return self.low <= level <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Rises:
    """Every curve rises from each level to the next, but for noise."""

    curves: Curves
    theirs: str

    @property
    def figure(self) -> str:
        """Name the curves."""
        return f"steps to the next level that do not go down: {self.curves}"

    @property
    def rule(self) -> str:
        """Say at how many steps."""
        return "every step"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade by the number of steps that do not go down."""
        curves = [list(curve.values()) for curve in self.curves.read(evidence).values()]
        steps = [(lower, upper) for curve in curves for lower, upper in pairwise(curve)]
        if not steps:
            raise LackingError(f"a second level (`{self.curves.scenario}`)")
        up = sum(upper * NOISE >= lower for lower, upper in steps)
        return Answer(here=f"{up} of {len(steps)}", grade=part(up, len(steps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowsFastest:
    """One curve grows by a larger factor from the first level to the last than every other."""

    curves: Curves
    candidate: str
    theirs: str

    @property
    def figure(self) -> str:
        """Name the candidate and the curves."""
        return f"growth from the first to the last level, largest for {self.candidate}: {self.curves}"

    @property
    def rule(self) -> str:
        """Say by how much."""
        return f"{self.candidate} ≥ {number(NOISE)} × every other"

    def judge(self, evidence: Evidence) -> Answer:
        """Grade: fastest of all, faster than some (`partly`), or than none."""
        curves = {name: list(curve.values()) for name, curve in self.curves.read(evidence).items()}
        if any(len(curve) < 2 or curve[0] <= 0 for curve in curves.values()):
            raise LackingError(f"a second level (`{self.curves.scenario}`)")
        growth = {name: curve[-1] / curve[0] for name, curve in curves.items()}
        others = [factor for name, factor in growth.items() if name != self.candidate]
        slower = sum(growth[self.candidate] >= NOISE * factor for factor in others)
        grade: Grade = "not reproduced" if not slower else "partly"
        return Answer(
            here=", ".join(f"{name} × {number(factor)}" for name, factor in growth.items()),
            grade="reproduced" if slower == len(others) else grade,
        )
