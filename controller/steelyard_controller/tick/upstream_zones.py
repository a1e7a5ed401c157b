"""The zones of one upstream from tick to tick: their traffic, and the factors for load balancers. Pure.

Zones are in force while a load balancer with read reports is in a zone with a server. A load balancer
without a zone, or in one without servers, follows the weights alone.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.tick.outcome import Outcome, headroom_of, shares
from steelyard_controller.tick.snapshot_builder import current_reports

# A name cannot be empty, so this one stands for servers without a zone.
NO_ZONE = ""

# Rates of smoothed counts never become 0.
SHOWN_PER_S = 0.05


def follow(
    before: Zoning | None,
    names: tuple[str, ...],
    peers: Sequence[Peer],
    inbox: Inbox,
    *,
    now_s: float,
    tick_s: float,
) -> tuple[Zoning | None, Floats]:
    """Return the zones of these names after a tick's reports, and the requests/s from each to each.

    None: no server has a zone, or no load balancer is in one of these.
    """
    if not names or not any(received.message.zone in names for received in inbox.reports.values()):
        return None, np.empty(0)
    numbers = {name: number for number, name in enumerate(names)}
    places = {peer.id: numbers.get(peer.zone or "", len(names)) for peer in peers}
    zoning = Zoning.of_peers([*places.values()], len(names))
    if before is not None:
        zoning = dataclasses.replace(before, of=zoning.of)
    flows = zoning.none()
    arrived = current_reports(inbox, now_s=now_s, tick_s=tick_s)
    ids: Sequence[str] = ()
    to: list[int] = []
    for report in (received.message for received in arrived):
        if report.ids != ids:  # Load balancers with the same table have the same ids.
            # A server that is no longer declared counts as one without a zone.
            ids, to = report.ids, [places.get(peer, len(names)) for peer in report.ids]
        ended = np.array(report.completed, dtype=float) + np.array(report.failed, dtype=float)
        np.add.at(flows[numbers.get(report.zone or "", len(names))], to, ended / report.interval_s)
    return (zoning.after(flows, tick_s) if arrived else zoning), flows


def decide(zoning: Zoning, outcome: Outcome) -> Outcome:
    """Return the outcome of a tick with the factors for the load balancers of each zone."""
    could, share = headroom_of(outcome).could_carry_per_s, np.array(shares(outcome.table))
    # A server that load balancers have ejected carries nothing now, and in some seconds its weight will show
    # it. So the zone has only its other servers.
    carrying = share * (outcome.decision.columns.get("away", np.zeros(len(share))) == 0)
    zoning = zoning.decide(carrying / carrying.sum() if carrying.any() else share, could)
    factors = tuple(tuple(row) for row in zoning.factors.tolist())
    table = replace(outcome.table, zone_factors=factors)
    return replace(outcome, table=table, zoning=zoning)


def zone_traffic(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return the requests/s from the load balancers of each zone, and how many of them leave the zone."""
    zones, per_s = outcome.table.zones, None if outcome.zoning is None else outcome.zoning.per_s
    if zones is None or per_s is None:
        return {}
    totals = per_s.sum(axis=1)
    rows = zip(zones, totals.tolist(), (totals - per_s.diagonal()).tolist(), strict=False)
    return {zone: {"brings_per_s": total, "crosses_per_s": crossing} for zone, total, crossing in rows}


def by_zone(outcome: Outcome) -> list[dict[str, Any]]:
    """Return for each zone its servers, its load balancers, and the requests that leave it for others.

    The last row, with the zone None, has the servers and load balancers without a zone, if there are any.
    Figures of requests are None until zones are in force. Empty: there is no zone.
    """
    table, share = outcome.table, shares(outcome.table)
    of_peer = [peer.zone or None for peer in table.peers]
    of_lb = {lb: received.message.zone or None for lb, received in outcome.inbox.reports.items()}
    named = {*of_peer} | {of_lb.get(lb) for lb in outcome.load_balancers}
    zones = [*(table.zones or sorted(zone for zone in named if zone is not None))]
    if not zones:
        return []
    zones += sorted(zone for zone in named if zone is not None and zone not in zones)
    zoned = zone_traffic(outcome)
    rows: list[dict[str, Any]] = []
    for zone in (*zones, *([None] if None in named else [])):
        here = [place for place, its in enumerate(of_peer) if its == zone]
        rows.append({
            "zone": zone,
            "servers": len(here),
            "up": sum(table.peers[place].state == "up" for place in here),
            "share": float(sum(share[place] for place in here)),
            "load_balancers": [lb for lb in outcome.load_balancers if of_lb.get(lb) == zone],
            **(zoned.get(zone or "") or {"brings_per_s": None, "crosses_per_s": None}),
            "crosses_to": _crosses_to(outcome, zone),
        })  # fmt: skip
    return rows


def crossing(outcome: Outcome) -> float | None:
    """Return the part of the requests from load balancers in zones that leaves the zone; None: no zones."""
    traffic = zone_traffic(outcome).values()
    brought = sum(each["brings_per_s"] for each in traffic)
    return sum(each["crosses_per_s"] for each in traffic) / brought if brought > 0 else None


def _crosses_to(outcome: Outcome, zone: str | None) -> dict[str, float]:
    """Return the requests/s from a zone's load balancers by the other zone to which they go."""
    zones, per_s = outcome.table.zones, None if outcome.zoning is None else outcome.zoning.per_s
    if zones is None or per_s is None or zone not in zones:
        return {}
    row = per_s[zones.index(zone)].tolist()
    return {
        to: rate
        for to, rate in zip((*zones, NO_ZONE), row, strict=True)
        if to != zone and rate >= SHOWN_PER_S
    }
