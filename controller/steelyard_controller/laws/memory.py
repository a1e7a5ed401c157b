"""A law's memory: columns keyed by peer ids, and a few scalars; a value.

Pure. Peers may join, leave or be reordered between two snapshots: `aligned`
follows them. A `Schema` names the columns with their first values and bounds.
`encode` and `decode` are the form that Redis holds; decoding is
total, because what an older version or a person left there must not stop a
controller.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan
from typing import TypeVar

import numpy as np

from steelyard_controller.laws.snapshot import INDICATORS, Batch, Floats, stacked, unstacked

# Beyond this no sum of a law can honestly get; a memory that holds more is damaged.
LARGEST = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure per peer (`width` 0), or `width` of them (a row of a matrix), or one `by_indicator`.

    `initial` is what a peer starts with; NaN means "none yet", and only such a column may hold it.
    One that is `added` may be missing in an earlier memory.
    """

    initial: float = 0.0
    width: int = 0
    low: float = 0.0
    high: float = LARGEST
    by_indicator: bool = False
    added: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A figure of the whole upstream; one that is `added` may be missing in an earlier memory."""

    initial: float = 0.0
    added: bool = False
    low: float = 0.0
    high: float = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A law's memory: raise `version` when a figure changes its meaning."""

    law: str
    version: int
    columns: Mapping[str, Column]
    scalars: Mapping[str, Scalar]
    parts: str | None = None
    """A scalar for each indicator, `<parts>_<indicator>`, of which all sum to 1; None: there are none."""

    def scalars_of(self, indicators: tuple[str, ...]) -> Mapping[str, Scalar]:
        """Return the scalars of a memory with these indicators."""
        if self.parts is None:
            return self.scalars
        each = Scalar(initial=1.0 / len(indicators), high=1.0)
        return {**self.scalars, **{f"{self.parts}_{name}": each for name in indicators}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a law carries from one tick to the next; arrays are never written to once they are here."""

    law: str
    version: int
    ids: tuple[str, ...]
    columns: Mapping[str, Floats]
    scalars: Mapping[str, float]
    indicators: tuple[str, ...] = INDICATORS


B = TypeVar("B", Column, Scalar)


def empty(schema: Schema) -> Memory:
    """Return the memory of a law that has seen nothing."""
    return Memory(
        law=schema.law,
        version=schema.version,
        ids=(),
        columns={name: _initial(column, 0) for name, column in schema.columns.items()},
        scalars={name: scalar.initial for name, scalar in schema.scalars_of(INDICATORS).items()},
    )


def aligned(
    memory: Memory, schema: Schema, ids: tuple[str, ...], indicators: tuple[str, ...] = INDICATORS
) -> Memory:
    """Return the memory with its rows in the order of `ids`, and its indicators in that of `indicators`.

    A new peer and a new indicator get the first values; what is known of the others stays.
    """
    if ids == memory.ids and indicators == memory.indicators:
        return memory
    if indicators != memory.indicators:
        memory = _of_indicators(memory, schema, indicators)
    row_of = {peer: row for row, peer in enumerate(memory.ids)}
    rows = np.array([row_of.get(peer, -1) for peer in ids], dtype=np.intp)
    known = rows >= 0
    columns: dict[str, Floats] = {}
    for name, column in schema.columns.items():
        values = _initial(column, len(ids), indicators)
        values[known] = memory.columns[name][rows[known]]
        columns[name] = values
    return replace(memory, ids=ids, columns=columns)


def batch_memory(memories: Sequence[Memory]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the columns, m x k, and the scalars, m x 1, of memories of one law that are aligned alike."""
    first = memories[0]
    columns = {name: stacked([each.columns[name] for each in memories]) for name in first.columns}
    scalars = {name: np.array([[each.scalars[name]] for each in memories]) for name in first.scalars}
    return columns, scalars


def batch_memories(
    schema: Schema, snapshots: Batch, columns: Mapping[str, Floats], scalars: Mapping[str, Floats]
) -> list[Memory]:
    """Return the memory of each upstream of a batch."""
    m = len(snapshots.ids)
    remembered = {
        "ids": snapshots.ids,
        "columns": unstacked(columns, m),
        "scalars": unstacked({name: each[:, 0].tolist() for name, each in scalars.items()}, m),
    }
    return [
        Memory(law=schema.law, version=schema.version, indicators=snapshots.indicators, **each)
        for each in unstacked(remembered, m)
    ]


def _of_indicators(memory: Memory, schema: Schema, indicators: tuple[str, ...]) -> Memory:
    place = {name: column for column, name in enumerate(memory.indicators)}
    columns = dict(memory.columns)
    for name, column in schema.columns.items():
        if column.by_indicator:
            values = _initial(column, len(memory.ids), indicators)
            for to, indicator in enumerate(indicators):
                if indicator in place:
                    values[:, to] = memory.columns[name][:, place[indicator]]
            columns[name] = values
    scalars = {name: memory.scalars[name] for name in schema.scalars}
    if schema.parts is not None:
        # A new one begins with no part: it gets one when it tells the peers apart. What others had is shared.
        parts = [memory.scalars.get(f"{schema.parts}_{each}", 0.0) for each in indicators]
        total = sum(parts)
        shared = [part / total for part in parts] if total > 0 else [1.0 / len(parts)] * len(parts)
        scalars |= {f"{schema.parts}_{each}": part for each, part in zip(indicators, shared, strict=True)}
    return replace(memory, columns=columns, scalars=scalars, indicators=indicators)


def _initial(column: Column, k: int, indicators: tuple[str, ...] = INDICATORS) -> Floats:
    width = len(indicators) if column.by_indicator else column.width
    return np.full((k, width) if width else k, column.initial)


def encode(memory: Memory) -> dict[str, object]:
    """Return the memory as a JSON-able object; NaN becomes null."""
    # With the four alone as it always was, so that an earlier controller can go on from it.
    indicators = {} if memory.indicators == INDICATORS else {"indicators": list(memory.indicators)}
    return {
        "law": memory.law,
        "version": memory.version,
        **indicators,
        "ids": list(memory.ids),
        "columns": {name: _encoded(values) for name, values in memory.columns.items()},
        "scalars": dict(zip(memory.scalars, _or_none(memory.scalars.values()), strict=True)),
    }


def _encoded(values: Floats) -> list[object]:
    if values.ndim == 1:
        return _or_none(values.tolist())
    # A row of nothing is one null: most windows of a matched-up memory are empty.
    nothing = np.atleast_1d(np.isnan(values).all(axis=1))
    return [
        None if none else _or_none(row) for row, none in zip(values.tolist(), nothing.tolist(), strict=True)
    ]


def _or_none(values: Iterable[float]) -> list[object]:
    # A call of isnan for each of some 700 figures of ten servers takes 60 us a tick.
    return [None if value != value else value for value in values]


def decode(schema: Schema, document: object) -> Memory | None:
    """Read what `encode` wrote; None when it is another law's, another version's, or damaged."""
    try:
        return _decode(schema, document)
    except _Damaged:
        return None


class _Damaged(Exception):
    """Internal: unwinds from a field to `decode`."""


def _decode(schema: Schema, document: object) -> Memory:
    names = {"law", "version", "ids", "columns", "scalars"}
    if isinstance(document, dict) and "indicators" in document:
        names.add("indicators")
    fields = _object(document, names)
    indicators = _indicators(fields.get("indicators", list(INDICATORS)))
    version = fields["version"]
    if fields["law"] != schema.law or isinstance(version, bool) or version != schema.version:
        raise _Damaged
    ids = fields["ids"]
    if not isinstance(ids, list) or not all(isinstance(peer, str) for peer in ids):
        raise _Damaged
    if len(set(ids)) != len(ids):
        raise _Damaged
    bounds = schema.scalars_of(indicators)
    scalars = _with_added(fields["scalars"], bounds, lambda scalar: scalar.initial)
    columns = _with_added(
        fields["columns"], schema.columns, lambda column: _encoded(_initial(column, len(ids), indicators))
    )
    return Memory(
        law=schema.law,
        version=schema.version,
        ids=tuple(ids),
        columns={
            name: _column(column, columns[name], _initial(column, len(ids), indicators))
            for name, column in schema.columns.items()
        },
        scalars={name: _figure(scalar, scalars[name]) for name, scalar in bounds.items()},
        indicators=indicators,
    )


def _indicators(names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _Damaged
    if len(set(names)) != len(names):
        raise _Damaged
    return tuple(names)


def _object(value: object, names: set[str]) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != names:
        raise _Damaged
    return value


def _with_added(given: object, bounds: Mapping[str, B], first: Callable[[B], object]) -> dict[str, object]:
    added = {name: first(each) for name, each in bounds.items() if each.added}
    return _object({**added, **given} if isinstance(given, dict) else given, set(bounds))


def _column(column: Column, values: object, matrix: Floats) -> Floats:
    """Read the values into `matrix`, which has their shape."""
    if not isinstance(values, list) or len(values) != len(matrix):
        raise _Damaged
    if matrix.ndim == 1:
        return np.array([_figure(column, value) for value in values], dtype=np.float64)
    for row, entries in enumerate(values):
        if entries is None and isnan(column.initial):
            continue
        if not isinstance(entries, list) or len(entries) != matrix.shape[1]:
            raise _Damaged
        matrix[row] = [_figure(column, entry) for entry in entries]
    return matrix


def _figure(bounds: Column | Scalar, value: object) -> float:
    if value is None and isnan(bounds.initial):
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Damaged
    # Compared before it becomes a float: a JSON integer may be too large for one.
    if not bounds.low <= value <= bounds.high or not isfinite(value):
        raise _Damaged
    return float(value)
