"""The outcome of one tick of one upstream, immutable: all that the REST API reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.explanation import explain
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.tick.snapshot_builder import in_band_utilization


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one tick read, decided and published; `degraded` has a line for each part that does not work."""

    table: WeightTable
    decision: Decision
    shadows: Mapping[str, Decision]
    snapshot: Snapshot
    inbox: Inbox
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
    """Return the indicators (cpu, net, io, mem) of a peer's last sample, or else those that it told in-band.

    None where there are none.
    """
    received = outcome.inbox.samples.get(peer)
    if received is not None:
        return received.message.utilization
    return in_band_utilization((each.message for each in outcome.inbox.reports.values()), peer)


def explanation(outcome: Outcome, peer: str) -> dict[str, Any]:
    """Return every figure behind a peer's weight, and each shadow law's weight with its reason."""
    row = outcome.decision.ids.index(peer)
    shadows = {law: explain(shadow, row) for law, shadow in outcome.shadows.items()}
    return {
        **explain(outcome.decision, row).to_dict(),
        "shadows": {law: {"weight": said.weight, "sentence": said.sentence} for law, said in shadows.items()},
    }
