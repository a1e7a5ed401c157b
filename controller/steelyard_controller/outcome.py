"""The immutable result of one tick of one upstream: all that the REST API ever reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from steelyard_controller.decision import Decision
from steelyard_controller.explanation import explain
from steelyard_controller.intake import Intake
from steelyard_controller.snapshot import Snapshot
from steelyard_controller.upstream import Upstream
from steelyard_controller.weight_table import WeightTable, to_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one tick read, decided and published, and what was wrong."""

    table: WeightTable
    decision: Decision
    shadows: Mapping[str, Decision]
    snapshot: Snapshot
    intake: Intake
    now_s: float
    degraded: tuple[str, ...] = ()


def overview(outcome: Outcome, upstream: Upstream) -> dict[str, Any]:
    """Return what an operator wants to see of an upstream: the table, its inputs and their ages."""
    document = to_document(outcome.table)
    decision = outcome.decision
    total = sum(peer.weight for peer in outcome.table.peers)
    for row, peer in enumerate(document["peers"]):
        held = outcome.intake.samples.get(peer["id"])
        peer["share"] = peer["weight"] / total
        peer["score"] = _or_none(decision.score[row])
        peer["utilization"] = (
            None
            if held is None
            else dict(zip(("cpu", "net", "io", "mem"), held.message.utilization, strict=True))
        )
        peer["sample_age_s"] = None if held is None else round(outcome.now_s - held.arrived_s, 3)
        peer["leaving"] = bool(held and held.message.leaving)
        peer["completed_per_tick"] = _or_none(outcome.snapshot.completed[row])
        peer["in_flight"] = float(outcome.snapshot.in_flight[row])
        peer["latency_ms"] = _or_none(outcome.snapshot.latency_s[row] * 1000)
        peer["why"] = explain(decision, row).sentence
        peer["shadows"] = {
            law: round(float(shadow.weights[row]), 3) for law, shadow in outcome.shadows.items()
        }
    document["alert"] = decision.alert
    document["entropy_weights"] = dict(
        zip(("cpu", "net", "io", "mem"), (float(w) for w in decision.entropy_weights), strict=True)
    )
    document["load_balancers"] = {
        lb: {"report_age_s": round(outcome.now_s - held.arrived_s, 3)} if held else None
        for lb in upstream.load_balancers
        for held in [outcome.intake.reports.get(lb)]
    }
    document["refused"] = {
        "now": {
            source: f"{refusal.reason}: {refusal.detail}"
            for source, refusal in outcome.intake.refusals.items()
        },
        "count": dict(outcome.intake.refused),
    }
    document["degraded"] = list(outcome.degraded)
    return document


def explanation(outcome: Outcome, peer: str) -> dict[str, Any]:
    """Return all that led to a peer's weight, and what each shadow would have given it and why."""
    row = outcome.decision.ids.index(peer)
    shadows = {law: explain(shadow, row) for law, shadow in outcome.shadows.items()}
    return {
        **explain(outcome.decision, row).to_dict(),
        "shadows": {law: {"weight": said.weight, "sentence": said.sentence} for law, said in shadows.items()},
    }


def _or_none(value: float | np.floating[Any]) -> float | None:
    return None if not np.isfinite(value) else float(value)
