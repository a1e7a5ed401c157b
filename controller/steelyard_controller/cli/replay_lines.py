"""The lines of `steelyard replay`: a snapshot read from JSON, a decision written as JSON.

Pure: text in, a `Snapshot` or a `Malformed` out; a `Decision` in, text out. The
format is an interface and stays as it is (docs/control-law.md, "Replay").
"""

import json
from collections.abc import Sequence
from math import isnan
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct
from steelyard_protocol.sample_record import INDICATOR_NAME

from steelyard_controller import json_text
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import (
    INDICATORS,
    MAX_FIGURE,
    MAX_KNEE,
    MAX_UTILIZATION,
    Floats,
    Snapshot,
)

# Parameters of a peer, one each.
FIGURES = ("baseline", "completed", "failed", "in_flight", "latency_s", "pinned", "up_s", "cost")

# Larger ages are an error of the recording, not lateness.
MOST_TICKS = 1_000_000

_Ticks = Annotated[int, Meta(ge=0, le=MOST_TICKS)]
_Figure = Annotated[float, Meta(ge=0.0, le=MAX_FIGURE)] | None
_Weight = Annotated[float, Meta(ge=1.0 / MAX_FIGURE, le=MAX_FIGURE)] | None
_Utilization = Annotated[float, Meta(ge=0.0, le=MAX_UTILIZATION)] | None


class Malformed(Exception):
    """A line other than a snapshot; the message has the reason."""


class _Peer(Struct):
    id: Annotated[str, Meta(min_length=1)]
    utilization: list[_Utilization] | None
    sample_age_ticks: _Ticks
    capacity: list[_Figure]
    baseline: _Weight
    completed: _Figure
    failed: _Figure
    in_flight: _Figure
    latency_s: _Figure
    leaving: bool = False
    eligible: bool = True
    pinned: _Weight = None
    up_s: _Figure = None
    cost: _Figure = None


class _Line(Struct):
    t_s: Annotated[float, Meta(ge=-MAX_FIGURE, le=MAX_FIGURE)]
    indicators: Annotated[list[str], Meta(min_length=1)]
    peers: Annotated[list[_Peer], Meta(min_length=1)]
    report_age_ticks: _Ticks
    knees: dict[str, float | None] = {}


_READER = msgspec.json.Decoder(_Line)


def parse(text: str, *, previous_t_s: float | None = None) -> Snapshot:
    """Return the snapshot of one line; raises `Malformed`.

    The tick's length is the time since `previous_t_s`, or 1 s for the first line and for a time that
    does not advance. Beside the keys of the interface a peer may have `leaving`, `eligible`
    (booleans), `pinned`, `up_s` and `cost` (a number or null), and the line `knees` by indicator. Unknown
    keys are ignored.
    """
    try:
        line = _READER.decode(text)
        json_text.parse(text)  # msgspec takes the last of two equal keys
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    except (msgspec.DecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    except ValueError as error:
        raise Malformed(str(error)) from None
    given, peers = line.indicators, line.peers
    _check_names(line)
    names = (
        *(each for each in INDICATORS if each in given),
        *(each for each in given if each not in INDICATORS),
    )
    step_s = 1.0 if previous_t_s is None else line.t_s - previous_t_s
    return Snapshot(
        t_s=line.t_s,
        tick_s=step_s if step_s > 0 else 1.0,
        ids=tuple(peer.id for peer in peers),
        indicators=names,
        knees=_floats([line.knees.get(each) for each in names]),
        utilization=_matrix([peer.utilization for peer in peers], given, names),
        sample_age_ticks=np.array([peer.sample_age_ticks for peer in peers], dtype=np.int64),
        capacity=_matrix([peer.capacity for peer in peers], given, INDICATORS),
        leaving=np.array([peer.leaving for peer in peers], dtype=np.bool_),
        report_age_ticks=line.report_age_ticks,
        eligible=np.array([peer.eligible for peer in peers], dtype=np.bool_),
        **{name: _floats([getattr(peer, name) for peer in peers]) for name in FIGURES},
    )


def line_of(decision: Decision) -> str:
    """Return a decision as one line; arrays are in the order of the peers, null is "unknown"."""
    further = {} if decision.indicators == INDICATORS else {"indicators": decision.indicators}
    line: dict[str, object] = {
        "t_s": decision.t_s,
        **further,
        "alert": decision.alert,
        "entropy_weights": _list(decision.entropy_weights),
        "score": _list(decision.score),
        "capacity_estimate": _list(decision.capacity_estimate),
        "weights": _list(decision.weights),
        "published": [int(weight) for weight in decision.published],
    }
    if decision.law == "paper":
        line |= {
            "normalized": _table(decision, "normalized"),
            "proportions": _table(decision, "proportions"),
            "entropy": _list(decision.by_indicator["entropy"]),
            "baseline_weights": _list(decision.baseline),
            "shares": _list(decision.columns["share"]),
            # Beyond the interface: eq 8 as printed, before it is scaled to sum to S.
            "paper_weights": _list(decision.columns["paper_weight"]),
            "high_load": [value > 0 for value in decision.columns["high_load"].tolist()],
            "low_load": [value > 0 for value in decision.columns["low_load"].tolist()],
        }
    return json.dumps(line, separators=(",", ":"), allow_nan=False)


def _list(values: Floats) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


def _table(decision: Decision, prefix: str) -> list[list[float | None]]:
    columns = [decision.columns[f"{prefix}_{each}"] for each in decision.indicators]
    return [_list(row) for row in np.column_stack(columns)]


def _check_names(line: _Line) -> None:
    given = line.indicators
    if len(set(given)) != len(given):
        raise Malformed('"indicators" names one twice')
    wrong = [each for each in given if each not in INDICATORS and not INDICATOR_NAME.fullmatch(each)]
    if wrong:
        raise Malformed(f'"indicators" has {wrong[0][:64]!r}; a name is {INDICATOR_NAME.pattern}')
    for name, knee in line.knees.items():
        if name not in given:
            raise Malformed(f'"knees" has {name[:64]!r}, which is not among "indicators"')
        if knee is not None and not 0.0 <= knee <= MAX_KNEE:
            raise Malformed(f"the knee of {name} is outside 0..{MAX_KNEE:g}")
    if len({peer.id for peer in line.peers}) != len(line.peers):
        raise Malformed("two peers have the same id")
    for peer in line.peers:
        for key, values in (("utilization", peer.utilization), ("capacity", peer.capacity)):
            if values is not None and len(values) != len(given):
                raise Malformed(f'"{key}" of peer {peer.id[:64]!r} is not a list of {len(given)} numbers')


def _floats(values: Sequence[float | None]) -> Floats:
    """Return figures as an array, NaN for null."""
    return np.array(values, dtype=np.float64)


def _matrix(
    rows: Sequence[Sequence[float | None] | None], given: Sequence[str], names: Sequence[str]
) -> Floats:
    """Return a column for each of `names`, from rows in the order of `given`; NaN for a missing one."""
    by_name = [dict(zip(given, row or (), strict=False)) for row in rows]
    return np.array([[each.get(name) for name in names] for each in by_name], dtype=np.float64)
