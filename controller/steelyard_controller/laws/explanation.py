"""Why a peer has its weight: every figure of one row of a decision, and one sentence.

Pure. The sentence begins with the weight as it is in the table, gives the main
reason and what else the law says of it, and ends with the clamps that every law has.
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
        entropy_weights=dict(zip(decision.indicators, decision.entropy_weights.tolist(), strict=True)),
        figures=figures,
        clamps=tuple(
            name.removeprefix("clamp_")
            for name, value in figures.items()
            if name.startswith("clamp_") and value == 1
        ),
        parameters=dict(decision.parameters),
        sentence=teller(decision)(index),
    )


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)


def teller(decision: Decision) -> Callable[[int], str]:
    """Return what tells the sentence for the peer at an index; what the peers share is reckoned once."""
    if decision.parts:
        (_, before), (_, after) = decision.parts
        return partial(_blended, decision, teller(before), teller(after))
    largest_figures: dict[str, float] = {}
    return lambda index: _sentence(Row(decision, index, largest_figures))


def _sentence(row: Row) -> str:
    decision = row.decision
    if row.is_set("leaving"):
        main = "because its agent said that the server is being stopped: a fiftieth of the baseline "
        clauses = [f"{main}{row.baseline}"]
    elif not isnan(row.get("pinned")):
        clauses = [f"because a person pinned it to {100 * row.get('pinned') / decision.total:.4g} %"]
        if row.is_set("clamp_pin"):
            clauses.append("scaled so that the pins leave every other server at least 1")
    else:
        clauses = laws.presentation_of(decision.law).reason(row)
    if row.get("eligible") == 0:
        clauses.append("out of service now, so this is kept for later and nothing is learnt")
    if row.is_set("clamp_one"):
        clauses.append("raised to 1, the least there is")
    return f"{row.weight} {', '.join(clauses)}"


def _blended(
    decision: Decision, tell_before: Callable[[int], str], tell_after: Callable[[int], str], index: int
) -> str:
    (_, before), (part, after) = decision.parts
    return (
        f"{decision.weights[index]:.0f}, which is {in_percent(part)} of the way "
        f"from {before.law} ({tell_before(index)}) to {after.law} ({tell_after(index)})"
    )
