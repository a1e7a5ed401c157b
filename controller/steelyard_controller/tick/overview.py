"""The overview of an upstream for the API, the page and `steelyard status`. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from steelyard_protocol.weight_table import to_document

from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.laws.explanation import sentence_writer
from steelyard_controller.tick import shown_rows
from steelyard_controller.tick.outcome import (
    Outcome,
    all_utilizations,
    indicators,
    shares,
    utilization,
)
from steelyard_controller.tick.shown_rows import View
from steelyard_controller.tick.snapshot_builder import Utilizations
from steelyard_controller.tick.upstream_zones import by_zone, zone_traffic

# A person reads the first few; ten thousand refused samples are a megabyte.
MOST_REFUSED = 20


def of_view(outcome: Outcome, declaration: Declaration, view: View) -> dict[str, Any]:
    """Return the overview with the servers of a view, and in `matching` the number of servers it matches."""
    rows, matching = shown_rows.rows(outcome, view)
    document = overview(outcome, declaration, rows)
    document["refused"]["now"] = dict(islice(document["refused"]["now"].items(), MOST_REFUSED))
    return document | {"matching": matching}


def overview(outcome: Outcome, declaration: Declaration, rows: Sequence[int] | None = None) -> dict[str, Any]:
    """Return the table with its inputs, their ages and reasons, as a JSON-able object; None is "unknown".

    `rows` are the places in the table of the shown servers; None: all.
    """
    decision, share, used = outcome.decision, shares(outcome.table), all_utilizations(outcome)
    rows = range(len(outcome.table.peers)) if rows is None else rows
    zones, placed, standing = zone_traffic(outcome), by_zone(outcome), shown_rows.standing(outcome)
    pinned = sum(peer.pin or 0.0 for peer in declaration.upstream.peers)
    return to_document(replace(outcome.table, peers=())) | {
        **({"zone_traffic": zones} if zones else {}),
        **({"by_zone": placed} if placed else {}),
        "level": standing.level,
        "troubles": list(standing.troubles),
        "peers": _peers(outcome, declaration, rows, share),
        "revision": declaration.revision,
        "alert": decision.alert,
        "thresholds": _thresholds(outcome),
        "headroom": asdict(standing.headroom),
        "entropy_weights": dict(zip(decision.indicators, decision.entropy_weights.tolist(), strict=True)),
        "indicators": indicators(outcome, used),
        "totals": _totals(outcome, share, used) | {"pinned": pinned},
        "shadow_laws": list(outcome.shadows),
        "load_balancers": {lb: _load_balancer(outcome, lb) for lb in outcome.load_balancers},
        "refused": {
            "now": {
                source: f"{refusal.reason}: {refusal.detail}"
                for source, refusal in outcome.inbox.refusals.items()
            },
            "sources": len(outcome.inbox.refusals),
            "count": dict(outcome.inbox.refused),
        },
        "degraded": list(outcome.degraded),
    }


def peer_overview(outcome: Outcome, declaration: Declaration, peer: str) -> dict[str, Any] | None:
    """Return one server's row of the overview; None if it is not in the table."""
    row = next((row for row, each in enumerate(outcome.table.peers) if each.id == peer), None)
    return None if row is None else _peers(outcome, declaration, [row], shares(outcome.table))[0]


def _peers(
    outcome: Outcome, declaration: Declaration, rows: Sequence[int], share: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the table's rows at these places, with further figures of their servers."""
    table = replace(outcome.table, peers=tuple(outcome.table.peers[row] for row in rows))
    pins = {peer.id: peer.pin for peer in declaration.upstream.peers}
    write_sentence, troubles = sentence_writer(outcome.decision), shown_rows.troubles(outcome)
    pods = declaration.pods
    documents: list[dict[str, Any]] = to_document(table)["peers"]
    for row, peer in zip(rows, documents, strict=True):
        peer["address"] = outcome.typed_addresses.get(peer["id"], peer["address"])
        peer |= _peer(outcome, row, share=share[row], pin=pins.get(peer["id"]), why=write_sentence(row))
        peer["troubles"] = [trouble for trouble, has_it in troubles.items() if has_it[row]]
        if peer["id"] in pods:
            peer["pod"] = pods[peer["id"]]
    return documents


def _peer(outcome: Outcome, row: int, *, share: float, pin: float | None, why: str) -> dict[str, Any]:
    """Return the figures of a server beside its row in the table."""
    snapshot, name = outcome.snapshot, outcome.table.peers[row].id
    received = outcome.inbox.samples.get(name)
    used = utilization(outcome, name)
    return {
        "share": share,
        "pin": pin,
        "score": _or_none(outcome.decision.score[row]),
        "utilization": None if used is None else {**dict.fromkeys(outcome.decision.indicators), **used},
        "sample_age_s": None if received is None else round(outcome.now_s - received.arrived_s, 3),
        "silent": outcome.is_silent(received),
        "leaving": bool(received and received.message.leaving),
        "completed_per_tick": _or_none(snapshot.completed[row]),
        "failed_per_tick": _or_none(snapshot.failed[row]),
        "in_flight": float(snapshot.in_flight[row]),
        **{name: _of_law(outcome, name, row) for name in ("waiting", "open")},
        "latency_ms": _or_none(snapshot.latency_s[row] * 1000),
        "why": why,
        "shadows": {law: round(float(shadow.weights[row]), 3) for law, shadow in outcome.shadows.items()},
    }


def _totals(
    outcome: Outcome, share: Sequence[float], used: Mapping[str, Utilizations | None]
) -> dict[str, Any]:
    """Return sums over all servers, and means of the known values."""
    peers, snapshot = outcome.table.peers, outcome.snapshot
    timed = np.where(np.isfinite(snapshot.latency_s), np.nan_to_num(snapshot.completed), 0.0)
    weights = np.array([[peer.weight, peer.baseline, peer.state == "up"] for peer in peers]).reshape(-1, 3).T
    moves = np.abs(np.log(weights[0] / weights[1])) * weights[2]
    moved = peers[int(moves.argmax())] if moves.any() else None
    busy = {
        name: _mean([each[name] for each in used.values() if each and each.get(name) is not None])
        for name in outcome.decision.indicators
    }
    return {
        "servers": len(peers),
        "up": int(weights[2].sum()),
        "share": float(sum(share)),
        "weight": _mean(weights[0]),
        "score": _mean(outcome.decision.score[np.isfinite(outcome.decision.score)]),
        "utilization": busy,
        "completed_per_tick": float(np.nansum(snapshot.completed)),
        "failed_per_tick": float(np.nansum(snapshot.failed)),
        "in_flight": float(snapshot.in_flight.sum()),
        "latency_ms": float(timed @ np.nan_to_num(snapshot.latency_s) * 1000 / timed.sum())
        if timed.any()
        else None,
        "moved": moved
        and {
            **msgspec.to_builtins(moved),
            "address": outcome.typed_addresses.get(moved.id, moved.address),
        },
    }


def _mean(values: Any) -> float | None:  # noqa: ANN401 - a list or an array
    return float(np.mean(values)) if len(values) else None


def _load_balancer(outcome: Outcome, lb: str) -> dict[str, Any] | None:
    received = outcome.inbox.reports.get(lb)
    if received is None:
        return None
    return {
        "report_age_s": round(outcome.now_s - received.arrived_s, 3),
        "silent": outcome.is_silent(received),
        "declared": lb not in outcome.undeclared,
        "rung": received.message.rung,
        "zone": received.message.zone or None,
        "order": received.message.order,
    }


def _of_law(outcome: Outcome, column: str, row: int) -> float | None:
    """Return a server's value in a column of the live law; None: unknown."""
    figures = outcome.decision.columns.get(column)
    return None if figures is None else _or_none(figures[row])


def _thresholds(outcome: Outcome) -> dict[str, float] | None:
    parameters = outcome.decision.parameters
    return {name: parameters[name] for name in ("H", "L")} if {"H", "L"} <= set(parameters) else None


def _or_none(value: float | np.floating[Any]) -> float | None:
    return None if not np.isfinite(value) else float(value)
