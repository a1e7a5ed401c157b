"""One moment of an upstream's history, as JSON: columns over its peers.

Pure. It has columns because a plot draws columns; they take a tenth of the bytes of rows.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from steelyard_controller.laws.snapshot import INDICATORS, Floats
from steelyard_controller.tick.outcome import MOST_UNDECLARED, Outcome, all_utilizations, shares

# The columns beside the four indicators.
COLUMNS = ("weight", "share", "score", "completed", "latency_ms")


def encode(outcome: Outcome) -> bytes:
    """Return the moment of an outcome as JSON; figures have four digits, null is "unknown"."""
    table, decision, snapshot = outcome.table, outcome.decision, outcome.snapshot
    document: dict[str, Any] = {
        "at_ms": table.issued_at_ms,
        "term": table.term,
        "generation": table.generation,
        "alert": decision.alert,
        "ids": [peer.id for peer in table.peers],
        "weight": [peer.weight for peer in table.peers],
        "share": [round(share, 4) for share in shares(table)],
        "state": [peer.state for peer in table.peers],
        "score": _short(decision.score),
        **_utilizations(outcome),
        "completed": _short(snapshot.completed),
        "latency_ms": _short(snapshot.latency_s * 1000),
        "entropy": _short(decision.entropy_weights),
    }
    if decision.indicators != INDICATORS:
        document["indicators"] = decision.indicators
    return msgspec.json.encode(document)


def thinned(moments: Sequence[bytes], *, step_s: float, peers: Sequence[str] | None = None) -> list[bytes]:
    """Return the moments that lie at least `step_s` apart, and the last one; oldest first.

    Unreadable entries are left out. With `peers`, each moment has the columns of these peers alone. Its
    member `all` has the share and the requests of all peers, and the means of the other figures.
    """
    readable = [(at_ms, moment) for moment in moments if (at_ms := _at_ms(moment)) is not None]
    kept: list[bytes] = []
    last_ms = None
    for at_ms, moment in readable:
        # Moments after a clock was set back must not be hidden.
        if last_ms is None or not 0 <= at_ms - last_ms < step_s * 1000 - 1:
            kept.append(moment)
            last_ms = at_ms
    if readable and kept[-1] is not readable[-1][1]:
        kept.append(readable[-1][1])
    return kept if peers is None else [of for moment in kept if (of := _of(peers, moment)) is not None]


def _of(peers: Sequence[str], text: bytes) -> bytes | None:
    moment = json.loads(text)
    try:
        at = {id: row for row, id in enumerate(moment["ids"])}
        rows = [at[id] for id in peers if id in at]
        columns = {name: moment[name] for name in (*COLUMNS, *INDICATORS)}
        further = moment.get("further", {})
        every = columns | {f"further.{name}": column for name, column in further.items()}
        of_all = {name: _summary(name, column, columns) for name, column in every.items()}
        # A sum of ten thousand small rounded shares is not 1.
        of_all["share"] = float(not {"up", "backup"}.isdisjoint(moment["state"]))
        for name in ("ids", "state", *columns):
            moment[name] = [moment[name][row] for row in rows]
        if further:
            moment["further"] = {name: [column[row] for row in rows] for name, column in further.items()}
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    return json.dumps(moment | {"all": of_all}, separators=(",", ":")).encode()


def _summary(name: str, column: Sequence[float | None], columns: Mapping[str, Any]) -> float | None:
    """Return the sum of requests, the mean latency of a request, or the mean of another figure."""
    values = np.array(column, dtype=float)
    known = ~np.isnan(values)
    weights = np.ones(len(values))
    if name == "latency_ms":
        weights = np.nan_to_num(np.array(columns["completed"], dtype=float))
    if not weights[known].any():
        return None
    of = 1.0 if name == "completed" else weights[known].sum()
    return float(f"{(values[known] * weights[known]).sum() / of:.4g}")


def _at_ms(moment: bytes) -> int | None:
    try:
        document = json.loads(moment)
    except (ValueError, RecursionError):
        return None
    at_ms = document.get("at_ms") if isinstance(document, dict) else None
    return at_ms if isinstance(at_ms, int) else None


def _utilizations(outcome: Outcome) -> dict[str, Any]:
    # From the last sample, which may be of the previous tick: a late sample is no gap in a plot.
    rows = [each or {} for each in all_utilizations(outcome).values()]
    further = dict.fromkeys(name for row in rows for name in row if name not in INDICATORS)
    declared = [name for name in further if name in outcome.decision.indicators]
    names = [*declared, *[name for name in further if name not in declared][:MOST_UNDECLARED]]
    columns = {name: [_rounded(row.get(name)) for row in rows] for name in (*INDICATORS, *names)}
    further = {name: columns.pop(name) for name in names}
    return {**columns, "further": further} if further else columns


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _short(column: Floats) -> list[float | None]:
    return [None if value != value else float(f"{value:.4g}") for value in np.asarray(column).tolist()]
