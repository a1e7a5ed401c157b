"""Laws' memories in their form in Redis, ready for JSON.

Pure. Decoding is total, so that a damaged memory cannot stop a controller.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isnan
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from steelyard_controller.laws.memory import Column, Memory, Scalar, Schema, as_batch, shape_of
from steelyard_controller.laws.snapshot import Floats


def encode_all(memories: Sequence[Memory]) -> list[dict[str, object]]:
    """Return the memories, ready for JSON; NaN becomes null.

    Those that stepped together are read from their batch together: with ten servers each, the calls of numpy
    would be the longest part.
    """
    batches: defaultdict[int, list[int]] = defaultdict(list)
    for place, memory in enumerate(memories):
        batches[id(getattr(memory, "batch", memory))].append(place)
    documents: dict[int, dict[str, object]] = {}
    for places in batches.values():
        some = [memories[place] for place in places]
        columns, scalars = _figures(some)
        for row, (place, memory) in enumerate(zip(places, some, strict=True)):
            documents[place] = {
                "law": memory.law,
                "version": memory.version,
                "indicators": list(memory.indicators),
                "ids": list(memory.ids),
                "columns": {name: of_each[row] for name, of_each in columns.items()},
                "scalars": {name: of_each[row] for name, of_each in scalars.items()},
            }
    return [documents[place] for place in range(len(memories))]


def _figures(memories: Sequence[Memory]) -> tuple[dict[str, list[object]], dict[str, list[object]]]:
    """Return the columns and the scalars of each of these memories of one batch, or of one by itself."""
    batch = as_batch(memories)
    if batch is not None:
        columns, scalars = batch.columns, {name: each[:, 0].tolist() for name, each in batch.scalars.items()}
    else:
        (alone,) = memories
        columns = {name: values[None] for name, values in alone.columns.items()}
        scalars = {name: [float(value)] for name, value in alone.scalars.items()}
    return (
        {name: _encoded(values) for name, values in columns.items()},
        {name: _or_none(values) for name, values in scalars.items()},
    )


def _encoded(values: Floats) -> list[object]:
    """Return a column of m upstreams, m x k or m x k x n, as lists."""
    unknown = np.isnan(values)
    if not unknown.any():
        known: list[object] = values.tolist()
        return known
    if values.ndim == 2:
        return [_or_none(row) for row in values.tolist()]
    # A row of NaN is one null: most windows are empty once their halves are paired.
    nothing = np.logical_and.reduce(unknown, axis=2).tolist()
    return [
        [None if none else _or_none(row) for row, none in zip(rows, of_rows, strict=True)]
        for rows, of_rows in zip(values.tolist(), nothing, strict=True)
    ]


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
    """Read a memory from `encode_all`; None if it is of another law or version, or damaged."""
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
            name: _column(column, stored.columns[name], shape_of(column, len(ids), indicators))
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
