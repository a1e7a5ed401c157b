"""The lines of `steelyard replay`: a snapshot read from JSON, a decision written as JSON.

Pure: text in, a `Snapshot` or a `Malformed` out; a `Decision` in, text out. The
format is an interface and stays as it is (docs/control-law.md, "Replay").
"""

import json
from math import isfinite, isnan
from typing import Any, NoReturn

import numpy as np
from steelyard_protocol.sample_record import INDICATOR_NAME

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import (
    INDICATORS,
    MAX_FIGURE,
    MAX_KNEE,
    MAX_UTILIZATION,
    Floats,
    Snapshot,
)

# Ages beyond this are an error of the recording, not lateness.
MOST_TICKS = 1_000_000


class Malformed(Exception):
    """A line that is not a snapshot; the message says why."""


def parse(text: str, *, previous_t_s: float | None = None) -> Snapshot:
    """Return the snapshot of one line; raises `Malformed`.

    The tick's length is the time since `previous_t_s`, and 1 s where there is none or where the
    time does not advance. Beside the keys of the interface a peer may have `leaving`, `eligible`
    (booleans), `pinned`, `up_s` and `cost` (a number or null), and the line `knees` by indicator; unknown
    keys are ignored.
    """
    try:
        line = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        _malformed(f"not JSON: {str(error)[:100]}")
    if not isinstance(line, dict):
        _malformed("not a JSON object")
    t_s = _number(line, "t_s", low=-MAX_FIGURE)
    given = _indicators(_field(line, "indicators"))
    names = (
        *(each for each in INDICATORS if each in given),
        *(each for each in given if each not in INDICATORS),
    )
    peers = _field(line, "peers")
    if not isinstance(peers, list) or not peers:
        _malformed('"peers" is not a list of peers')
    for peer in peers:
        if not isinstance(peer, dict):
            _malformed('"peers" holds something that is not an object')
    ids = tuple(_id(peer) for peer in peers)
    if len(set(ids)) != len(ids):
        _malformed("two peers have the same id")
    step_s = 1.0 if previous_t_s is None else t_s - previous_t_s
    return Snapshot(
        t_s=t_s,
        tick_s=step_s if step_s > 0 else 1.0,
        ids=ids,
        indicators=names,
        knees=_knees(line.get("knees", {}), names),
        utilization=_matrix(peers, "utilization", given, names, MAX_UTILIZATION, nullable=True),
        sample_age_ticks=np.array([_count(peer, "sample_age_ticks") for peer in peers], dtype=np.int64),
        capacity=_matrix(peers, "capacity", given, INDICATORS, MAX_FIGURE, nullable=False),
        baseline=_column(peers, "baseline", low=1.0 / MAX_FIGURE),
        completed=_column(peers, "completed"),
        failed=_column(peers, "failed"),
        in_flight=_column(peers, "in_flight"),
        latency_s=_column(peers, "latency_s"),
        leaving=_flags(peers, "leaving", default=False),
        report_age_ticks=_count(line, "report_age_ticks"),
        eligible=_flags(peers, "eligible", default=True),
        pinned=_column([{"pinned": peer.get("pinned")} for peer in peers], "pinned", low=1.0 / MAX_FIGURE),
        up_s=_column([{"up_s": peer.get("up_s")} for peer in peers], "up_s"),
        cost=_column([{"cost": peer.get("cost")} for peer in peers], "cost"),
    )


def line_of(decision: Decision) -> str:
    """Return a decision as one line; arrays are in the order of the peers, null is "not known"."""
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


def _malformed(detail: str) -> NoReturn:
    raise Malformed(detail)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _field(holder: dict[str, Any], key: str) -> Any:  # noqa: ANN401 - JSON, checked by the caller
    if key not in holder:
        _malformed(f'no "{key}"{_whose(holder)}')
    return holder[key]


def _whose(holder: dict[str, Any]) -> str:
    return f" of peer {str(holder['id'])[:64]!r}" if "id" in holder else ""


def _number(holder: dict[str, Any], key: str, *, low: float = 0.0, high: float = MAX_FIGURE) -> float:
    return _checked(_field(holder, key), f'"{key}"{_whose(holder)}', low, high)


def _checked(value: object, what: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _malformed(f"{what} is not a number")
    if not low <= value <= high or not isfinite(value):
        _malformed(f"{what} is outside {low:g}..{high:g}")
    return float(value)


def _count(holder: dict[str, Any], key: str) -> int:
    value = _field(holder, key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TICKS:
        _malformed(f'"{key}"{_whose(holder)} is not a whole number of ticks')
    return value


def _id(peer: dict[str, Any]) -> str:
    value = _field(peer, "id")
    if not isinstance(value, str) or not value:
        _malformed('an "id" is not a name')
    return value


def _indicators(names: object) -> list[str]:
    if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
        _malformed('"indicators" is not a list of names')
    if len(set(names)) != len(names):
        _malformed('"indicators" names one twice')
    wrong = [each for each in names if each not in INDICATORS and not INDICATOR_NAME.fullmatch(each)]
    if wrong:
        _malformed(f'"indicators" has {wrong[0][:64]!r}; a name is {INDICATOR_NAME.pattern}')
    return names


def _knees(given: object, names: tuple[str, ...]) -> Floats:
    if not isinstance(given, dict) or not set(given) <= set(names):
        _malformed('"knees" is not an object of numbers by indicator')
    knees = [
        np.nan if (knee := given.get(each)) is None else _checked(knee, f"the knee of {each}", 0.0, MAX_KNEE)
        for each in names
    ]
    return np.array(knees)


def _matrix(
    peers: list[dict[str, Any]],
    key: str,
    given: list[str],
    names: tuple[str, ...],
    high: float,
    *,
    nullable: bool,
) -> Floats:
    """Return a column for each of `names` out of lists in the order of `given`; NaN where it is not there."""
    matrix = np.full((len(peers), len(names)), np.nan)
    for row, peer in enumerate(peers):
        values = _field(peer, key)
        if values is None and nullable:
            continue
        if not isinstance(values, list) or len(values) != len(given):
            _malformed(f'"{key}"{_whose(peer)} is not a list of {len(given)} numbers')
        for name, value in zip(given, values, strict=True):
            # A single null: this indicator cannot be measured there, or is no hardware.
            if value is not None and name in names:
                matrix[row, names.index(name)] = _checked(value, f'"{key}"{_whose(peer)}', 0.0, high)
    return matrix


def _column(peers: list[dict[str, Any]], key: str, *, low: float = 0.0) -> Floats:
    return np.array(
        [np.nan if _field(peer, key) is None else _number(peer, key, low=low) for peer in peers],
        dtype=np.float64,
    )


def _flags(peers: list[dict[str, Any]], key: str, *, default: bool) -> np.ndarray:
    for peer in peers:
        if not isinstance(peer.get(key, default), bool):
            _malformed(f'"{key}"{_whose(peer)} is not true or false')
    return np.array([peer.get(key, default) for peer in peers], dtype=np.bool_)
