"""What an operator wants to see of an upstream: the table, its inputs, their ages, and why. Pure."""

from typing import Any

import numpy as np

from steelyard_controller.declared.declaration import Declaration
from steelyard_controller.equations import INDICATORS
from steelyard_controller.explanation import explain
from steelyard_controller.outcome import Outcome, shares, utilization
from steelyard_controller.pipeline.weight_table import to_document


def overview(outcome: Outcome, declaration: Declaration) -> dict[str, Any]:
    """Return an outcome as a JSON-able object; None is "not known"."""
    decision = outcome.decision
    pins = {peer.id: peer.pin for peer in declaration.upstream.peers}
    document = to_document(outcome.table)
    share = shares(outcome.table)
    for row, peer in enumerate(document["peers"]):
        held = outcome.intake.samples.get(peer["id"])
        used = utilization(outcome, peer["id"])
        peer |= {
            "share": share[row],
            "pin": pins.get(peer["id"]),
            "score": _or_none(decision.score[row]),
            "utilization": None if used is None else dict(zip(INDICATORS, used, strict=True)),
            "sample_age_s": None if held is None else round(outcome.now_s - held.arrived_s, 3),
            "leaving": bool(held and held.message.leaving),
            "completed_per_tick": _or_none(outcome.snapshot.completed[row]),
            "failed_per_tick": _or_none(outcome.snapshot.failed[row]),
            "in_flight": float(outcome.snapshot.in_flight[row]),
            "latency_ms": _or_none(outcome.snapshot.latency_s[row] * 1000),
            "why": explain(decision, row).sentence,
            "shadows": {law: round(float(shadow.weights[row]), 3) for law, shadow in outcome.shadows.items()},
        }
    return document | {
        "revision": declaration.revision,
        "alert": decision.alert,
        "thresholds": _thresholds(outcome),
        "entropy_weights": dict(zip(INDICATORS, map(float, decision.entropy_weights), strict=True)),
        "shadow_laws": list(outcome.shadows),
        "load_balancers": {lb: _load_balancer(outcome, lb) for lb in declaration.upstream.load_balancers},
        "refused": {
            "now": {
                source: f"{refusal.reason}: {refusal.detail}"
                for source, refusal in outcome.intake.refusals.items()
            },
            "count": dict(outcome.intake.refused),
        },
        "degraded": list(outcome.degraded),
    }


def _load_balancer(outcome: Outcome, lb: str) -> dict[str, Any] | None:
    held = outcome.intake.reports.get(lb)
    if held is None:
        return None
    return {
        "report_age_s": round(outcome.now_s - held.arrived_s, 3),
        "rung": held.message.rung,
        "order": held.message.order,
    }


def _thresholds(outcome: Outcome) -> dict[str, float] | None:
    parameters = outcome.decision.parameters
    return {name: parameters[name] for name in ("H", "L")} if {"H", "L"} <= set(parameters) else None


def _or_none(value: float | np.floating[Any]) -> float | None:
    return None if not np.isfinite(value) else float(value)
