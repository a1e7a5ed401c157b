"""A law's decision: the weights, and every figure that led to them.

Pure. Columns are like those of the snapshot; `explanation.explain` turns one row into words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard_controller.laws.shared_columns import Part
from steelyard_controller.laws.snapshot import INDICATORS, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One law's decision on one snapshot; k peers in the snapshot's order.

    weights        k, positive, sum to `total` (S)
    published      k integers >= 1: `weights` rounded by largest remainder to sum S, as in the table
    baseline       k, W_S, on the scale of `weights`
    published_baseline   k integers: `baseline`, rounded likewise
    score          k, U (eq 6); NaN: not known
    alert          whether the law is in its high-load mode
    indicators         n, names of the law's indicators
    entropy_weights    n, weights of the indicators; they sum to 1
    capacity_estimate  k, estimated capacity in requests per busy second; NaN: the law has none
    columns        k each: the other figures behind a weight, by name; a clamp is 0 or 1
    by_indicator   n each: range, entropy, credit and knee of the indicators, if the law has them
    parameters     the law's thresholds and parameters, by the letters of docs/reference/law-parameters.md
    parts          for a blend: (fraction, decision) of its two laws
    """

    t_s: float
    law: str
    ids: tuple[str, ...]
    weights: Floats
    published: Ints
    baseline: Floats
    published_baseline: Ints
    score: Floats
    alert: bool
    entropy_weights: Floats
    capacity_estimate: Floats
    columns: Mapping[str, Floats]
    parameters: Mapping[str, float]
    total: int
    by_indicator: Mapping[str, Floats] = field(default_factory=dict)
    indicators: tuple[str, ...] = INDICATORS
    parts: "tuple[tuple[float, Decision], ...]" = ()

    def integers(self) -> tuple[list[int], list[int]]:
        """Return `published` and `published_baseline` as lists."""
        return self.published.tolist(), self.published_baseline.tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """One law's decisions on the m upstreams of a batch.

    by_upstream             fields of a `Decision` by name, with the upstreams as the first axis
    shared                  fields that are the same for all upstreams
    columns, by_indicator   those of a `Decision`, with the upstreams as the first axis
    """

    by_upstream: Mapping[str, Any]
    shared: Mapping[str, Any]
    columns: Mapping[str, Floats]
    by_indicator: Mapping[str, Floats]
    _integers: list[list[list[int]]] = field(default_factory=list)

    def integers(self, row: int) -> tuple[list[int], list[int]]:
        """Return one upstream's integers; those of all are made when the first one is asked for."""
        if not self._integers:
            names = ("published", "published_baseline")
            self._integers.extend(self.by_upstream[name].tolist() for name in names)
        published, baseline = self._integers
        return published[row], baseline[row]

    def of(self, row: int) -> Decision:
        """Return one upstream's decision; its columns are views."""
        return _Row.of(self, row)


class _Row(Decision):
    """A decision in a batch. A tick makes thousands and reads few figures: each is cut when it is read."""

    __slots__ = ("_decisions", "_row")

    _decisions: Decisions
    _row: int

    @classmethod
    def of(cls, decisions: Decisions, row: int) -> "_Row":
        decision = object.__new__(cls)
        object.__setattr__(decision, "_decisions", decisions)
        object.__setattr__(decision, "_row", row)
        return decision

    def integers(self) -> tuple[list[int], list[int]]:
        # A changed copy has its own figures, and no batch.
        decisions = getattr(self, "_decisions", None)
        return Decision.integers(self) if decisions is None else decisions.integers(self._row)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a column or a figure
        # Python asks here for a field that is not set. A changed copy has all of them, and no batch.
        if name in _Row.__slots__:
            raise AttributeError(name)
        decisions, row = self._decisions, self._row
        if name in decisions.by_upstream:
            figure = decisions.by_upstream[name][row]
        elif name in decisions.shared:
            figure = decisions.shared[name]
        elif name in {"columns", "by_indicator"}:
            figure = Part(getattr(decisions, name), row)
        else:
            raise AttributeError(name)
        object.__setattr__(self, name, figure)
        return figure
