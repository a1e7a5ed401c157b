"""The law `static`: every peer keeps its baseline weight.

Pure. For comparison and as a fallback.

    W_j = W_Sj
"""

from dataclasses import dataclass, field
from typing import ClassVar

from steelyard_controller.laws.decision_builder import baseline_weights, build_decisions
from steelyard_controller.laws.law import Columns, Law, Outcome
from steelyard_controller.laws.memory import Column, Schema
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.presentation import Presentation, Row, Step
from steelyard_controller.laws.snapshot import Batch

SCHEMA = Schema(law="static", version=1, columns={"W": Column(initial=float("nan"))}, scalars={})


def _reason(_row: Row) -> list[str]:
    return ["its baseline, which the law static keeps"]


PRESENTATION = Presentation(
    sentence="weights stay at the baselines",
    color="#F5A870",
    reason=_reason,
    steps=(Step("Baseline", "{baseline:count}", "This law keeps it."),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticParameters:
    """The parameters of the law `static`."""

    S: float = parameter(*SHARED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Static(Law):
    """The law `static` with its parameters bound."""

    bound: StaticParameters = field(default_factory=StaticParameters)
    name: str = "static"
    schema: Schema = SCHEMA
    presentation: ClassVar[Presentation] = PRESENTATION

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Return the baseline weights."""
        baseline = baseline_weights(snapshots, law_total(self.bound.S, snapshots.k))
        weights, decisions = build_decisions(
            law=self.name,
            snapshots=snapshots,
            raw=baseline,
            baseline=baseline,
            parameters=self.parameters,
            columns={},
            weight_before=previous["W"],
        )
        return Outcome(columns={"W": weights}, scalars=previous_scalars, decisions=decisions)
