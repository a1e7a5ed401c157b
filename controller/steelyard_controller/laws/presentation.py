"""How a law shows itself: a sentence, a colour, the steps to a weight, and the reason of one in words.

Pure. Each law declares its `Presentation` beside its schema. REST publishes all of it but the reason, which
`explanation` asks for; the page, the lab and the benchmarks keep no list of their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from steelyard_controller.laws.decision import Decision


class Row:
    """One peer's figures of a decision, read by name; NaN where there is none.

    `largest_figures` is shared by the rows of one decision, so that each is reckoned once.
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
        """Tell whether a figure is known, and above 0."""
        return self.get(name) > 0

    def largest(self, name: str) -> float:
        """Return the largest figure among the peers in service; 0 where there is none."""
        if name not in self._largest:
            columns = self.decision.columns
            in_service = columns["eligible"] > 0
            self._largest[name] = float(np.max(columns[name], where=in_service, initial=0.0))
        return self._largest[name]


@dataclass(frozen=True, slots=True)
class Step:
    """One step from what was measured to a weight, as the page shows it.

    label      what it is
    value      its figure, as text
    note       a sentence about it
    instead    by the name of a figure: the note where that figure is not 0; the first of them holds

    The texts name figures in braces, each with its format: `{backlog:factor}`. Figures are those of an
    explanation, its `baseline`, `score` and `capacity_estimate`; formats are count, percent, factor, and of
    seconds duration and milliseconds.
    """

    label: str
    value: str
    note: str
    instead: Mapping[str, str] = field(default_factory=dict)


FORMATS = ("count", "percent", "factor", "duration", "milliseconds")
"""How a figure is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """How a law shows itself.

    sentence   what its weights follow, without a capital and a full stop
    color      its colour in plots, #rrggbb
    steps      how a weight comes about; what every law has, pins and the weight itself, follows by itself
    limits     what it means that a clamp of the law's own was hit, by the clamp
    reason     returns the clauses that say why a peer has its weight, the main one first
    """

    sentence: str
    color: str
    steps: tuple[Step, ...]
    reason: Callable[[Row], list[str]]
    limits: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what is published, as a JSON-able object."""
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
    """Return a figure in three digits, a large one in as many as it has."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def in_seconds(value: float) -> str:
    """Return a time in seconds, or in milliseconds where it is short."""
    return f"{value:.1f} s" if value >= 0.095 else f"{1000 * value:.0f} ms"


def in_ticks(count: float) -> str:
    """Return a number of ticks."""
    return "1 tick" if count == 1 else f"{count:.0f} ticks"
