"""The outcome of one tick of one upstream, immutable: all that the REST API reads. Pure."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from steelyard_protocol.sample_record import INDICATORS, MAX_FURTHER
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.declarations.upstream import IN_FLIGHT_INDICATOR
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.explanation import explain
from steelyard_controller.laws.headroom import Headroom, headroom
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox, Message, Received, is_silent
from steelyard_controller.tick.snapshot_builder import Utilizations, in_band_utilization, sampled_utilization

# What is reported and not declared is shown, to be looked at: the four, and as many more as one server has.
# Without a bound, servers that name their own would make what is kept grow by servers times names.
MOST_UNDECLARED = len(INDICATORS) + MAX_FURTHER


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one tick read, decided and published.

    `load_balancers` are those whose reports are read, of which nobody declared the `undeclared`;
    `led_since_s` is the time of the first tick of this term; `degraded` has a line for each part that does
    not work; `zoning` is of the table's zones, None where it has none.
    """

    table: WeightTable
    decision: Decision
    shadows: Mapping[str, Decision]
    snapshot: Snapshot
    inbox: Inbox
    now_s: float
    load_balancers: tuple[str, ...] = ()
    undeclared: frozenset[str] = frozenset()
    led_since_s: float = -math.inf
    degraded: tuple[str, ...] = ()
    carries_per_s: float | None = None
    zoning: Zoning | None = None

    def is_silent(self, received: Received[Any] | None) -> bool:
        """Tell whether nothing comes any more from the sender of a message, or ever has."""
        return is_silent(received, now_s=self.now_s, tick_s=self.snapshot.tick_s)


def shares(table: WeightTable) -> list[float]:
    """Return by peer the share of the requests that its weight is meant to bring, 0 where it gets none.

    Backups count only while no other peer is up, as the data plane has it.
    """
    serving = "up" if any(peer.state == "up" for peer in table.peers) else "backup"
    total = sum(peer.weight for peer in table.peers if peer.state == serving)
    return [peer.weight / total if peer.state == serving else 0.0 for peer in table.peers]


def reporting(outcome: Outcome) -> set[str]:
    """Return the load balancers that report: they sent something new in this term, and are not silent."""
    return {lb for lb, received in outcome.inbox.reports.items() if _is_heard(outcome, received)}


def ahead(outcome: Outcome) -> dict[str, int]:
    """Return the term of the load balancers that hold a table of a higher one than this: they refuse it."""
    orders = {lb: outcome.inbox.reports[lb].message.order for lb in reporting(outcome)}
    return {lb: order[0] for lb, order in orders.items() if order and order[0] > outcome.table.term}


def measured(outcome: Outcome) -> set[str]:
    """Return the peers whose utilization comes in: in samples, or in what load balancers tell of them."""
    reports = [outcome.inbox.reports[lb].message for lb in reporting(outcome)]
    by_in_flight = IN_FLIGHT_INDICATOR in outcome.decision.indicators
    told = {peer for report in reports for peer in (report.ids if by_in_flight else report.loads)}
    return told | {peer for peer, received in outcome.inbox.samples.items() if _is_heard(outcome, received)}


def headroom_of(outcome: Outcome) -> Headroom:
    """Return what the upstream could carry, carries, and has left."""
    share, come = np.array(shares(outcome.table)), measured(outcome)
    heard = np.array([peer.id in come for peer in outcome.table.peers], dtype=np.bool_)
    counts = (share > 0) & heard & ~outcome.snapshot.leaving
    return headroom(outcome.decision, outcome.shadows.values(), share, counts, outcome.carries_per_s)


def _is_heard(outcome: Outcome, received: Received[Message]) -> bool:
    # What the first tick of a term finds may be all that a sender that has ended has left behind.
    return received.arrived_s > outcome.led_since_s and not outcome.is_silent(received)


def utilization(outcome: Outcome, peer: str) -> Utilizations | None:
    """Return the indicators of a peer's last sample, or else those that it told in-band.

    Those that it reports and nobody declared are there too. None where there are none.
    """
    received = outcome.inbox.samples.get(peer)
    if received is not None:
        return sampled_utilization(received.message)
    reports = (each.message for each in outcome.inbox.reports.values())
    return in_band_utilization(reports, peer, outcome.decision.indicators)


def all_used(outcome: Outcome) -> dict[str, Utilizations | None]:
    """Return by peer what `utilization` returns of it."""
    return {peer.id: utilization(outcome, peer.id) for peer in outcome.table.peers}


def indicators(
    outcome: Outcome, used: Mapping[str, Utilizations | None] | None = None
) -> dict[str, dict[str, Any]]:
    """Return by indicator whether it counts, its knee and weight, and how many servers report it.

    First those that count, then those that are reported and not declared: of these `MOST_UNDECLARED`, by the
    most servers. `used` is `all_used`, where it is known already.
    """
    decision = outcome.decision
    knees = decision.by_indicator.get("knee")
    rows: dict[str, dict[str, Any]] = {
        name: {
            "used": True,
            "knee": None if knees is None else float(knees[column]),
            "weight": float(decision.entropy_weights[column]),
            "reporting": 0,
        }
        for column, name in enumerate(decision.indicators)
    }
    reporting = Counter(
        name
        for each in (all_used(outcome) if used is None else used).values()
        for name, value in (each or {}).items()
        if value is not None
    )
    undeclared = [name for name, _ in reporting.most_common() if name not in rows][:MOST_UNDECLARED]
    for name, count in reporting.items():
        if name in undeclared:
            rows[name] = {"used": False, "knee": None, "weight": None}
        if name in rows:
            rows[name]["reporting"] = count
    return rows


def explanation(outcome: Outcome, peer: str) -> dict[str, Any]:
    """Return every figure behind a peer's weight, and each shadow law's weight with its reason."""
    row = outcome.decision.ids.index(peer)
    shadows = {law: explain(shadow, row) for law, shadow in outcome.shadows.items()}
    return {
        **asdict(explain(outcome.decision, row)),
        "indicators": indicators(outcome),
        "shadows": {law: {"weight": said.weight, "sentence": said.sentence} for law, said in shadows.items()},
    }
