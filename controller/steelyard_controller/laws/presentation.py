"""The presentation of a law: a sentence, a colour, the steps to a weight, and the reason for a weight.

Pure. Each law declares its `Presentation` beside its schema. REST publishes all of it except the reason:
`explanation` calls that. So the page, the lab and the benchmarks need no list of laws.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from steelyard_controller.laws.decision import Decision


class Row:
    """One peer's figures of a decision, read by name; NaN for an unknown name.

    The rows of one decision share `largest_figures`, so that each is computed once.
    """

    def __init__(self, decision: Decision, index: int, largest_figures: dict[str, float]) -> None:
        self.decision = decision
        self.index = index
        self.weight = str(decision.published[index])
        self.baseline = f"{decision.baseline[index]:.0f}"
        self._largest = largest_figures

    def get(self, name: str) -> float:
        """Return a figure of this peer."""
        column = self.decision.columns.get(name)
        return float("nan") if column is None else float(column[self.index])

    def is_set(self, name: str) -> bool:
        """Return whether a figure is known and above 0."""
        return self.get(name) > 0

    def largest(self, name: str) -> float:
        """Return the largest figure among the peers in service; 0 without any."""
        if name not in self._largest:
            columns = self.decision.columns
            in_service = columns["eligible"] > 0
            self._largest[name] = float(np.max(columns[name], where=in_service, initial=0.0))
        return self._largest[name]


@dataclass(frozen=True, slots=True)
class Step:
    """One step from measurements to a weight, as the page shows it.

    label      name of the step
    value      its figure, as text
    note       a sentence about it
    instead    other notes, by the name of a figure: the first one whose figure is not 0 replaces the note

    The texts name figures in braces, each with its format: `{backlog:factor}`. Figures are those of an
    explanation, and its `baseline`, `score` and `capacity_estimate`. Formats are count, percent and factor;
    for seconds, duration and milliseconds.
    """

    label: str
    value: str
    note: str
    instead: Mapping[str, str] = field(default_factory=dict)


FORMATS = ("count", "percent", "factor", "duration", "milliseconds")
"""Formats of figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """The presentation of a law.

    sentence   the quantity that its weights follow, without a capital and a full stop
    color      its colour in plots, #rrggbb
    steps      the steps to a weight; the page adds those of every law: pins and the weight itself
    limits     the meaning of each of the law's own clamps, by its name
    reason     function that returns the clauses of the reason for a peer's weight, the main one first
    """

    sentence: str
    color: str
    steps: tuple[Step, ...]
    reason: Callable[[Row], list[str]]
    limits: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the published members, ready for JSON."""
        return {
            "sentence": self.sentence,
            "color": self.color,
            "steps": [asdict(step) for step in self.steps],
            "limits": dict(self.limits),
        }


def in_percent(ratio: float) -> str:
    """Return a ratio in percent."""
    percent = 100 * ratio
    return f"{percent:.0f} %" if percent >= 0.95 or percent == 0 else f"{percent:.1f} %"


def in_digits(value: float) -> str:
    """Return a figure in three digits, or without decimals from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def in_seconds(value: float) -> str:
    """Return a time in seconds, or in milliseconds below 95 ms."""
    return f"{value:.1f} s" if value >= 0.095 else f"{1000 * value:.0f} ms"


def in_ticks(count: float) -> str:
    """Return a number of ticks."""
    return count_of(count, "tick")


def count_of(count: float, noun: str) -> str:
    """Return a rounded number and its noun, in the plural unless the number is 1."""
    return f"{count:.0f} {noun}{'' if f'{count:.0f}' == '1' else 's'}"
