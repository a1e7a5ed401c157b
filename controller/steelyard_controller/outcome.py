"""The immutable result of one tick of one upstream: all that the REST API ever reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard_controller.decision import Decision
from steelyard_controller.explanation import explain
from steelyard_controller.pipeline.intake import Intake
from steelyard_controller.pipeline.weight_table import WeightTable
from steelyard_controller.snapshot import Snapshot


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


def shares(table: WeightTable) -> list[float]:
    """Return by peer the share of the requests that its weight is meant to bring, 0 where it gets none.

    Backups count only while no other peer is up, as the data plane has it.
    """
    serving = "up" if any(peer.state == "up" for peer in table.peers) else "backup"
    total = sum(peer.weight for peer in table.peers if peer.state == serving)
    return [peer.weight / total if peer.state == serving else 0.0 for peer in table.peers]


def utilization(outcome: Outcome, peer: str) -> tuple[float | None, ...] | None:
    """Return the indicators (cpu, net, io, mem) of a peer's last sample; None where there is none."""
    held = outcome.intake.samples.get(peer)
    return None if held is None else held.message.utilization


def explanation(outcome: Outcome, peer: str) -> dict[str, Any]:
    """Return all that led to a peer's weight, and what each shadow would have given it and why."""
    row = outcome.decision.ids.index(peer)
    shadows = {law: explain(shadow, row) for law, shadow in outcome.shadows.items()}
    return {
        **explain(outcome.decision, row).to_dict(),
        "shadows": {law: {"weight": said.weight, "sentence": said.sentence} for law, said in shadows.items()},
    }
