"""The law `static`: every peer keeps its baseline weight, whatever happens.

Pure. The yardstick for every other law, and what to fall back to.

    W_j = W_Sj
"""

from dataclasses import dataclass, field

from steelyard_controller.decision import Decision
from steelyard_controller.laws.bound import BoundLaw
from steelyard_controller.laws.memory import Memory, aligned
from steelyard_controller.laws.parameters import SHARED_S, law_total, parameter
from steelyard_controller.laws.schema import Column, Schema
from steelyard_controller.laws.settle import baseline_weights, settled
from steelyard_controller.snapshot import Snapshot, cleaned

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
        """Answer with the baseline weights."""
        snapshot = cleaned(snapshot)
        memory = aligned(memory, SCHEMA, snapshot.ids)
        baseline = baseline_weights(snapshot, law_total(self.bound.S, len(snapshot.ids)))
        decision = settled(
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
