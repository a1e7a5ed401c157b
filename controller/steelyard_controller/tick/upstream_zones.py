"""The zones of one upstream from tick to tick: what goes where, and what load balancers are told. Pure.

They are in force while a load balancer whose reports are read is in a zone that a server has. One that tells
no zone, or one without servers, goes by the weights alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from steelyard_protocol.weight_table import WeightTable

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.tick.outcome import Outcome, headroom_of, shares
from steelyard_controller.tick.snapshot_builder import current_reports


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamZones:
    """The zones by their names, what is known of them, and what was seen at the last tick."""

    names: tuple[str, ...]
    zoning: Zoning
    seen: Floats


def follow(
    before: UpstreamZones | None,
    names: tuple[str, ...],
    peers: Sequence[Peer],
    inbox: Inbox,
    *,
    now_s: float,
    tick_s: float,
) -> UpstreamZones | None:
    """Return the zones after a tick's reports; None: no server has one, or no load balancer is in one."""
    if not any(received.message.zone in names for received in inbox.reports.values()):
        return None
    numbers = {name: number for number, name in enumerate(names)}
    of = [numbers.get(peer.zone or "", len(names)) for peer in peers]
    if before is None or before.names != names:
        zoning = Zoning.of_peers(of, len(names))
    else:
        zoning = replace(before.zoning, of=np.array(of, dtype=np.int64))
    places = {peer.id: number for peer, number in zip(peers, of, strict=True)}
    seen = zoning.none()
    arrived = current_reports(inbox, now_s=now_s, tick_s=tick_s)
    ids: Sequence[str] = ()
    to: list[int] = []
    for report in (received.message for received in arrived):
        if report.ids != ids:  # load balancers with the same table have the same ids
            # A server that is declared no more counts as one in no zone.
            ids, to = report.ids, [places.get(peer, len(names)) for peer in report.ids]
        ended = np.array(report.completed, dtype=float) + np.array(report.failed, dtype=float)
        np.add.at(seen[numbers.get(report.zone or "", len(names))], to, ended / report.interval_s)
    return UpstreamZones(names=names, zoning=zoning.after(seen, tick_s) if arrived else zoning, seen=seen)


def decide(zones: UpstreamZones, outcome: Outcome) -> tuple[UpstreamZones, Outcome]:
    """Return the zones and the outcome of a tick with what load balancers of each zone are told."""
    could, share = headroom_of(outcome).could_carry_per_s, np.array(shares(outcome.table))
    # Load balancers have left it out, as its weight will in some seconds: the zone has the others alone.
    there = share * (outcome.decision.columns.get("away", np.zeros(len(share))) == 0)
    zoning = zones.zoning.decide(there / there.sum() if there.any() else share, could)
    told = tuple(tuple(row) for row in zoning.factors.tolist())
    table = replace(outcome.table, zone_factors=told)
    return replace(zones, zoning=zoning), replace(outcome, table=table, zoning=zoning)


def followed(zones: UpstreamZones, table: WeightTable, peers: Sequence[Peer]) -> Floats:
    """Return the weights, k, that the requests of this tick's reports followed; NaN: none yet."""
    weights = {peer.id: float(peer.weight) for peer in table.peers}
    return zones.zoning.followed(np.array([weights.get(peer.id, np.nan) for peer in peers]), zones.seen)


def zone_traffic(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return by zone the requests/s that its load balancers bring, and those of them that leave it."""
    zones, per_s = outcome.table.zones, None if outcome.zoning is None else outcome.zoning.per_s
    if zones is None or per_s is None:
        return {}
    brings = per_s.sum(axis=1)
    rows = zip(zones, brings.tolist(), (brings - per_s.diagonal()).tolist(), strict=False)
    return {zone: {"brings_per_s": came, "crosses_per_s": crossed} for zone, came, crossed in rows}
