"""The zones of one upstream from tick to tick: what goes where, and what load balancers are told. Pure.

They are in force while a load balancer whose reports are read is in a zone that a server has. One that tells
no zone, or one without servers, goes by the weights alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.tick.outcome import Outcome, headroom_of, shares
from steelyard_controller.tick.snapshot_builder import current_reports


def follow(
    before: Zoning | None,
    names: tuple[str, ...],
    peers: Sequence[Peer],
    inbox: Inbox,
    *,
    now_s: float,
    tick_s: float,
) -> tuple[Zoning | None, Floats]:
    """Return the zones of these names after a tick's reports, and the requests/s seen from each to each.

    None: no server has one, or no load balancer is in one.
    """
    if not any(received.message.zone in names for received in inbox.reports.values()):
        return None, np.empty(0)
    numbers = {name: number for number, name in enumerate(names)}
    places = {peer.id: numbers.get(peer.zone or "", len(names)) for peer in peers}
    zoning = Zoning.of_peers([*places.values()], len(names))
    if before is not None:
        zoning = replace(before, of=zoning.of)
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
    return (zoning.after(seen, tick_s) if arrived else zoning), seen


def decide(zoning: Zoning, outcome: Outcome) -> Outcome:
    """Return the outcome of a tick with what load balancers of each zone are told."""
    could, share = headroom_of(outcome).could_carry_per_s, np.array(shares(outcome.table))
    # Load balancers have left it out, as its weight will in some seconds: the zone has the others alone.
    there = share * (outcome.decision.columns.get("away", np.zeros(len(share))) == 0)
    zoning = zoning.decide(there / there.sum() if there.any() else share, could)
    told = tuple(tuple(row) for row in zoning.factors.tolist())
    return replace(outcome, table=replace(outcome.table, zone_factors=told), zoning=zoning)


def zone_traffic(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return by zone the requests/s that its load balancers bring, and those of them that leave it."""
    zones, per_s = outcome.table.zones, None if outcome.zoning is None else outcome.zoning.per_s
    if zones is None or per_s is None:
        return {}
    brings = per_s.sum(axis=1)
    rows = zip(zones, brings.tolist(), (brings - per_s.diagonal()).tolist(), strict=False)
    return {zone: {"brings_per_s": came, "crosses_per_s": crossed} for zone, came, crossed in rows}
