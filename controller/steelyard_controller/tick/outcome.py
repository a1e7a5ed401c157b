"""The outcome of one tick of one upstream, immutable: the input of the REST API. Pure."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from msgspec import Struct, field
from steelyard_protocol.sample_record import INDICATORS, MAX_FURTHER
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.declarations.upstream import IN_FLIGHT_INDICATOR
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.explanation import explain
from steelyard_controller.laws.headroom import Headroom, headroom
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.received import Message, Received, is_silent
from steelyard_controller.tick.snapshot_builder import Utilizations, in_band_utilization

# Reported indicators are shown even if they are undeclared: the four, and as many more as one server has.
# Without a bound, servers with their own names would make the saved data grow by servers times names.
MOST_UNDECLARED = len(INDICATORS) + MAX_FURTHER


class Outcome(Struct, frozen=True, kw_only=True, eq=False):
    """The inputs, decision and table of one tick.

    A `Struct`, because a tick makes thousands: a frozen dataclass takes four times as long.

    load_balancers    those whose reports are read
    undeclared        those among them that are not declared
    led_since_s       the time of the first tick of this term
    read_since_s      the time since which every tick has read Memcached; None: this one did not
    degraded          a line for each of the upstream's own faults
    zoning            the table's zones; None: it has none
    typed_addresses   by server, the declared spelling of an address that is another one in the table
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
    read_since_s: float | None = -math.inf
    degraded: tuple[str, ...] = ()
    carries_per_s: float | None = None
    zoning: Zoning | None = None
    typed_addresses: Mapping[str, str] = field(default_factory=dict)

    def is_silent(self, received: Received[Any] | None) -> bool:
        """Return whether the sender of a message is silent, or was never heard."""
        return is_silent(received, now_s=self.now_s, tick_s=self.snapshot.tick_s)

    def fails_to_send(self, received: Received[Any] | None) -> bool:
        """Return whether a sender is silent by a fault of its own: Memcached has been read long enough."""
        if self.read_since_s is None:
            return False
        return is_silent(
            received, now_s=self.now_s, tick_s=self.snapshot.tick_s, read_since_s=self.read_since_s
        )


def shares(table: WeightTable) -> list[float]:
    """Return the share of requests that each peer's weight should bring; 0 if it gets none.

    Backups count only while no other peer is up, as in the data plane.
    """
    serving = "up" if any(peer.state == "up" for peer in table.peers) else "backup"
    total = sum(peer.weight for peer in table.peers if peer.state == serving)
    return [peer.weight / total if peer.state == serving else 0.0 for peer in table.peers]


def reporting(outcome: Outcome) -> set[str]:
    """Return the load balancers with new reports in this term that are not silent."""
    return {lb for lb, received in outcome.inbox.reports.items() if _is_heard(outcome, received)}


def ahead(outcome: Outcome) -> dict[str, int]:
    """Return the higher terms of load balancers whose table is newer than this one, which they refuse."""
    return {
        lb: received.message.order[0]
        for lb, received in outcome.inbox.reports.items()
        if received.message.order
        and received.message.order[0] > outcome.table.term
        and _is_heard(outcome, received)
    }


def measured(outcome: Outcome) -> set[str]:
    """Return the peers with a known utilization, from samples or from load balancers."""
    reports = [outcome.inbox.reports[lb].message for lb in reporting(outcome)]
    by_in_flight = IN_FLIGHT_INDICATOR in outcome.decision.indicators
    in_band = {peer for report in reports for peer in (report.ids if by_in_flight else report.loads)}
    # By columns: a scrape of the metrics asks for all upstreams, and a message would be read anew each time.
    return in_band | outcome.inbox.samples.heard(
        since_s=outcome.led_since_s, now_s=outcome.now_s, tick_s=outcome.snapshot.tick_s
    )


def headroom_of(outcome: Outcome) -> Headroom:
    """Return the upstream's headroom: the load that it could carry, its load now, and the rest."""
    share, measured_peers = np.array(shares(outcome.table)), measured(outcome)
    is_measured = np.array([peer.id in measured_peers for peer in outcome.table.peers], dtype=np.bool_)
    counts = (share > 0) & is_measured & ~outcome.snapshot.leaving
    return headroom(outcome.decision, outcome.shadows.values(), share, counts, outcome.carries_per_s)


def _is_heard(outcome: Outcome, received: Received[Message]) -> bool:
    # The messages at the first tick of a term may come from a sender that has ended since.
    return received.arrived_s > outcome.led_since_s and not outcome.is_silent(received)


def utilization(outcome: Outcome, peer: str) -> Utilizations | None:
    """Return the indicators of a peer's last sample, or else those from its responses; None: neither.

    Undeclared indicators are included.
    """
    sampled = outcome.inbox.samples.utilization(peer)
    if sampled is not None:
        return sampled
    reports = (each.message for each in outcome.inbox.reports.values())
    return in_band_utilization(reports, peer, outcome.decision.indicators)


def all_utilizations(outcome: Outcome) -> dict[str, Utilizations | None]:
    """Return the `utilization` of every peer."""
    sampled = outcome.inbox.samples.utilizations()
    return {peer.id: sampled.get(peer.id) or utilization(outcome, peer.id) for peer in outcome.table.peers}


def indicators(
    outcome: Outcome, utilizations: Mapping[str, Utilizations | None] | None = None
) -> dict[str, dict[str, Any]]:
    """Return by indicator whether it counts, its knee and weight, and the number of servers with it.

    The indicators that count come first, then at most `MOST_UNDECLARED` undeclared ones, by servers.
    `utilizations` is the result of `all_utilizations`, if the caller has it.
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
        for each in (all_utilizations(outcome) if utilizations is None else utilizations).values()
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
    explained = {law: explain(shadow, row) for law, shadow in outcome.shadows.items()}
    shadows = {law: {"weight": each.weight, "sentence": each.sentence} for law, each in explained.items()}
    return {
        **asdict(explain(outcome.decision, row)),
        "indicators": indicators(outcome),
        "shadows": shadows,
    }
