"""The explanation of a peer's weight: every figure of one row of a decision, and one sentence.

Pure. The sentence begins with the weight in the table. The law's main reason and its other clauses follow,
and last the clamps that every law has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isnan

from steelyard_controller import laws
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.presentation import Row, in_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One peer's row of a decision; None for a figure that is not known.

    `figures` are the decision's columns by name: inputs and their ages, residuals, evidence,
    factors, restarts, and the clamps (`clamp_...`, 1 if hit). `clamps` names those that were hit.
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


def explain(decision: Decision, index: int) -> Explanation:
    """Return every figure behind the weight of peer `index`, and a sentence."""
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
        entropy_weights=dict(zip(decision.indicators, decision.entropy_weights.tolist(), strict=True)),
        figures=figures,
        clamps=tuple(
            name.removeprefix("clamp_")
            for name, value in figures.items()
            if name.startswith("clamp_") and value == 1
        ),
        parameters=dict(decision.parameters),
        sentence=sentence_writer(decision)(index),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)


def sentence_writer(decision: Decision) -> Callable[[int], str]:
    """Return a function from a peer's index to its sentence; figures of all peers are computed once."""
    if decision.parts:
        (_, before), (_, after) = decision.parts
        return partial(_blended, decision, sentence_writer(before), sentence_writer(after))
    largest_figures: dict[str, float] = {}
    return lambda index: _sentence(Row(decision, index, largest_figures))


def _sentence(row: Row) -> str:
    decision = row.decision
    if row.is_set("leaving"):
        main = "its agent reported that the server is stopping, so it gets a fiftieth of its baseline "
        clauses = [f"{main}{row.baseline}"]
    elif not isnan(row.get("pinned")):
        clauses = [f"pinned to {100 * row.get('pinned') / decision.total:.4g} % by a person"]
        if row.is_set("clamp_pin"):
            clauses.append("scaled so that the pins leave every other server at least 1")
    else:
        clauses = laws.presentation_of(decision.law).reason(row)
    if row.get("eligible") == 0:
        clauses.append("out of service now: the weight is kept for its return, and nothing is learnt")
    if row.is_set("clamp_one"):
        clauses.append("raised to 1, the smallest weight")
    return f"{row.weight}: {', '.join(clauses)}"


def _blended(
    decision: Decision, write_before: Callable[[int], str], write_after: Callable[[int], str], index: int
) -> str:
    (_, before), (part, after) = decision.parts
    return (
        f"{decision.weights[index]:.0f}: {in_percent(part)} of the way "
        f"from {before.law} ({write_before(index)}) to {after.law} ({write_after(index)})"
    )
