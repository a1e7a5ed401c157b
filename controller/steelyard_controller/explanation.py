"""Why a peer has its weight: every figure of one row of a decision, and one sentence.

Pure. The words are in `wording`; this is the figures.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan

from steelyard_controller import wording
from steelyard_controller.decision import Decision
from steelyard_controller.equations import INDICATORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One peer's row of a decision; None where a figure is not known.

    `figures` are the decision's columns by name: inputs and their ages, residuals, evidence,
    factors, restarts, and the clamps (`clamp_...`, 1 where hit). `clamps` names those that were.
    """

    id: str
    law: str
    weight: float
    weight_before: float | None
    published: int
    baseline: float
    score: float | None
    capacity_estimate: float | None
    alert: bool
    entropy_weights: Mapping[str, float]
    figures: Mapping[str, float | None]
    clamps: tuple[str, ...]
    parameters: Mapping[str, float]
    sentence: str

    def to_dict(self) -> dict[str, object]:
        """Return every figure as a JSON-able object."""
        return asdict(self)


def explain(decision: Decision, index: int) -> Explanation:
    """Return every figure behind the weight of peer `index`, and one sentence for a person."""
    figures = {name: _known(column[index]) for name, column in decision.columns.items()}
    return Explanation(
        id=decision.ids[index],
        law=decision.law,
        weight=float(decision.weights[index]),
        weight_before=figures.get("weight_before"),
        published=int(decision.published[index]),
        baseline=float(decision.baseline[index]),
        score=_known(decision.score[index]),
        capacity_estimate=_known(decision.capacity_estimate[index]),
        alert=decision.alert,
        entropy_weights=dict(zip(INDICATORS, map(float, decision.entropy_weights), strict=True)),
        figures=figures,
        clamps=tuple(
            name.removeprefix("clamp_")
            for name, value in figures.items()
            if name.startswith("clamp_") and value == 1
        ),
        parameters=dict(decision.parameters),
        sentence=wording.sentence(decision, index),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)
