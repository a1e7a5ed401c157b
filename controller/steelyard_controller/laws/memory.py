"""A law's memory: columns keyed by peer ids, and a few scalars; a value.

Pure. Peers may join, leave or be reordered between two snapshots: `aligned` follows them. A `Schema` names
the columns with their initial values and bounds. `encode` and `decode` convert to and from the form in Redis.
Decoding is total, so that a damaged memory cannot stop a controller.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from steelyard_controller.laws.shared_columns import Part, joined
from steelyard_controller.laws.snapshot import INDICATORS, Batch, Floats

# No sum of a law can exceed this; a memory with more is damaged.
LARGEST = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A figure of the whole upstream.

    `initial` is its first value. NaN means "none yet", and only a figure that starts with NaN may be NaN.
    """

    initial: float = 0.0
    low: float = 0.0
    high: float = LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Scalar):
    """A figure per peer (`width` 0), a row of `width` figures, or a figure for each indicator."""

    width: int = 0
    by_indicator: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A law's memory: raise `version` when a figure changes its meaning."""

    law: str
    version: int
    columns: Mapping[str, Column]
    scalars: Mapping[str, Scalar]
    parts: str | None = None
    """Prefix of a scalar for each indicator, `<parts>_<indicator>`; these sum to 1. None: no such scalars."""

    def scalars_of(self, indicators: tuple[str, ...]) -> Mapping[str, Scalar]:
        """Return the scalars of a memory with these indicators."""
        if self.parts is None:
            return self.scalars
        each = Scalar(initial=1.0 / len(indicators), high=1.0)
        return {**self.scalars, **{f"{self.parts}_{name}": each for name in indicators}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The state of a law between two ticks; its arrays are never written to."""

    law: str
    version: int
    ids: tuple[str, ...]
    columns: Mapping[str, Floats]
    scalars: Mapping[str, float]
    indicators: tuple[str, ...] = INDICATORS


def empty(schema: Schema) -> Memory:
    """Return the memory of a law before its first snapshot."""
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
    """Return the memory with rows in the order of `ids`, and indicators in that of `indicators`.

    A new peer and a new indicator get initial values; the others keep their figures.
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


def batch_memory(memories: Sequence[Memory]) -> tuple[Mapping[str, Floats], Mapping[str, Floats]]:
    """Return the columns, m x k, and the scalars, m x 1, of memories of one law that are aligned alike."""
    scalars = joined([each.scalars for each in memories])
    columns = joined([each.columns for each in memories])
    return columns, {name: of_all[:, None] for name, of_all in scalars.items()}


def batch_memories(
    schema: Schema, snapshots: Batch, columns: Mapping[str, Floats], scalars: Mapping[str, Floats]
) -> list[Memory]:
    """Return the memory of each upstream of a batch: its part of the columns and scalars."""
    of_upstreams = {name: of_all[:, 0] for name, of_all in scalars.items()}
    return [
        Memory(
            law=schema.law,
            version=schema.version,
            ids=ids,
            columns=Part(columns, row),
            scalars=Part(of_upstreams, row),
            indicators=snapshots.indicators,
        )
        for row, ids in enumerate(snapshots.ids)
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
        # A new indicator begins with part 0, and gains one as it differs between peers. Lost parts are
        # shared.
        parts = [memory.scalars.get(f"{schema.parts}_{each}", 0.0) for each in indicators]
        total = sum(parts)
        shared = [part / total for part in parts] if total > 0 else [1.0 / len(parts)] * len(parts)
        scalars |= {f"{schema.parts}_{each}": part for each, part in zip(indicators, shared, strict=True)}
    return replace(memory, columns=columns, scalars=scalars, indicators=indicators)


def _initial(column: Column, k: int, indicators: tuple[str, ...] = INDICATORS) -> Floats:
    return np.full(_shape(column, k, indicators), column.initial)


def _shape(column: Column, k: int, indicators: tuple[str, ...]) -> tuple[int, ...]:
    width = len(indicators) if column.by_indicator else column.width
    return (k, width) if width else (k,)


def encode(memory: Memory) -> dict[str, object]:
    """Return the memory, ready for JSON; NaN becomes null."""
    return {
        "law": memory.law,
        "version": memory.version,
        "indicators": list(memory.indicators),
        "ids": list(memory.ids),
        "columns": {name: _encoded(values) for name, values in memory.columns.items()},
        "scalars": dict(zip(memory.scalars, _or_none(map(float, memory.scalars.values())), strict=True)),
    }


def _encoded(values: Floats) -> list[object]:
    if values.ndim == 1:
        return _or_none(values.tolist())
    unknown = np.isnan(values)
    if not unknown.any():
        known: list[object] = values.tolist()
        return known
    # A row of NaN is one null: most windows are empty once their halves are paired.
    nothing: list[bool] = np.logical_and.reduce(unknown, axis=1).tolist()
    return [None if none else _or_none(row) for row, none in zip(values.tolist(), nothing, strict=True)]


def _or_none(values: Iterable[float]) -> list[object]:
    # A call of isnan for each of some 700 figures of ten servers takes 60 us a tick.
    return [None if value != value else value for value in values]


# Null is "none yet"; NaN and infinity are refused, because JSON has neither.
_Figure = Annotated[float, Meta(ge=-1e300, le=1e300)] | None

# A figure for each peer, or a row of them; null is a row of nulls, too.
_Figures = list[_Figure | list[_Figure]]


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    law: str
    version: int
    ids: tuple[str, ...]
    columns: dict[str, _Figures]
    scalars: dict[str, _Figure]
    indicators: Annotated[tuple[str, ...], Meta(min_length=1)]


def decode(schema: Schema, document: object) -> Memory | None:
    """Read a memory from `encode`; None if it is of another law or version, or damaged."""
    try:
        return _decode(schema, msgspec.convert(document, _Stored))
    except ValueError:
        return None


def _decode(schema: Schema, stored: _Stored) -> Memory:
    ids, indicators = stored.ids, stored.indicators
    bounds = schema.scalars_of(indicators)
    if (stored.law, stored.version) != (schema.law, schema.version):
        raise ValueError("the memory is of another law or version")
    if len(set(ids)) != len(ids) or len(set(indicators)) != len(indicators):
        raise ValueError("a name occurs twice")
    if stored.columns.keys() != schema.columns.keys() or stored.scalars.keys() != bounds.keys():
        raise ValueError("the figures are not those of the law")
    return Memory(
        law=schema.law,
        version=schema.version,
        ids=ids,
        columns={
            name: _column(column, stored.columns[name], _shape(column, len(ids), indicators))
            for name, column in schema.columns.items()
        },
        scalars={name: _scalar(scalar, stored.scalars[name]) for name, scalar in bounds.items()},
        indicators=indicators,
    )


def _column(column: Column, values: _Figures, shape: tuple[int, ...]) -> Floats:
    if len(shape) > 1:
        nothing: list[float | None] = [None] * shape[1]
        values = [nothing if row is None else row for row in values]
    # Without peers there are no rows to take the width from.
    figures = np.array(values, dtype=np.float64) if values else np.empty((0, *shape[1:]))
    if figures.shape != shape:
        raise ValueError("the figures do not match the names of peers or indicators")
    inside = (figures >= column.low) & (figures <= column.high)
    if isnan(column.initial):
        inside |= np.isnan(figures)
    if not inside.all():
        raise ValueError("a figure is out of bounds")
    return figures


def _scalar(scalar: Scalar, value: float | None) -> float:
    if value is None and isnan(scalar.initial):
        return scalar.initial
    if value is None or not scalar.low <= value <= scalar.high:
        raise ValueError("a figure is out of bounds")
    return float(value)
