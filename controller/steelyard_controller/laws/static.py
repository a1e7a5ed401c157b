"""The law `static`: every peer keeps its baseline weight.

Pure. To compare other laws with, and to fall back to.

    W_j = W_Sj
"""

from dataclasses import dataclass, field

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.decision_builder import baseline_weights, build_decision
from steelyard_controller.laws.law import BoundLaw
from steelyard_controller.laws.memory import Column, Memory, Schema, aligned
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.snapshot import Snapshot, cleaned

SCHEMA = Schema(law="static", version=1, columns={"W": Column(initial=float("nan"))}, scalars={})


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticParameters:
    """The parameters of the law `static`."""

    S: float = parameter(*SHARED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Static(BoundLaw):
    """The law `static` with its parameters bound."""

    bound: StaticParameters = field(default_factory=StaticParameters)
    name: str = "static"
    schema: Schema = SCHEMA

    def step(self, memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
        """Decide for the baseline weights."""
        snapshot = cleaned(snapshot)
        memory = aligned(memory, SCHEMA, snapshot.ids)
        baseline = baseline_weights(snapshot, law_total(self.bound.S, len(snapshot.ids)))
        decision = build_decision(
            law=self.name,
            snapshot=snapshot,
            raw=baseline,
            baseline=baseline,
            parameters=self.parameters,
            columns={},
            weight_before=memory.columns["W"],
        )
        remembered = Memory(
            law=SCHEMA.law,
            version=SCHEMA.version,
            ids=snapshot.ids,
            columns={"W": decision.weights},
            scalars={},
        )
        return remembered, decision
