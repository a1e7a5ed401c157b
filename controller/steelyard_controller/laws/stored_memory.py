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

from steelyard_controller.laws.memory import Memories, Memory, Scalar, Schema, as_batch, shape_of
from steelyard_controller.laws.snapshot import Bools, Floats


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
    return decode_all(schema, [document])[0]


def decode_all(schema: Schema, documents: Sequence[object]) -> list[Memory | None]:
    """Read memories of one law, as `decode` does.

    Those of one size become a batch, for the reason that `encode_all` has.
    """
    memories: list[Memory | None] = [None] * len(documents)
    alike: defaultdict[tuple[int, tuple[str, ...]], list[tuple[int, _Stored]]] = defaultdict(list)
    for place, document in enumerate(documents):
        stored = _stored(schema, document)
        if stored is not None:
            alike[len(stored.ids), stored.indicators].append((place, stored))
    for group in alike.values():
        together = _together(schema, [stored for _, stored in group])
        for (place, _), memory in zip(group, together, strict=True):
            memories[place] = memory
    return memories


def _stored(schema: Schema, document: object) -> _Stored | None:
    """Return a document whose names are those of the law; None: it is another one."""
    try:
        stored = msgspec.convert(document, _Stored)
    except ValueError:
        return None
    ids, indicators = stored.ids, stored.indicators
    is_sound = (
        (stored.law, stored.version) == (schema.law, schema.version)
        and len(set(ids)) == len(ids)
        and len(set(indicators)) == len(indicators)
        and stored.columns.keys() == schema.columns.keys()
        and stored.scalars.keys() == schema.scalars_of(indicators).keys()
    )
    return stored if is_sound else None


def _together(schema: Schema, stored: Sequence[_Stored]) -> list[Memory | None]:
    """Return the memories of documents of one size; None for one with a wrong figure."""
    indicators, k = stored[0].indicators, len(stored[0].ids)
    sound = np.ones(len(stored), dtype=np.bool_)
    columns, scalars = dict[str, Floats](), dict[str, Floats]()
    try:
        for name, column in schema.columns.items():
            shape = (len(stored), *shape_of(column, k, indicators))
            columns[name] = _figures_of([each.columns[name] for each in stored], shape)
            sound &= _is_within(column, columns[name])
        for name, scalar in schema.scalars_of(indicators).items():
            scalars[name] = np.array([[each.scalars[name]] for each in stored], dtype=np.float64)
            sound &= _is_within(scalar, scalars[name])
    except ValueError:
        # The figures of one of them do not match its names.
        if len(stored) == 1:
            return [None]
        return [memory for each in stored for memory in _together(schema, [each])]
    batch = Memories(
        schema=schema,
        ids=tuple(each.ids for each in stored),
        indicators=indicators,
        columns=columns,
        scalars=scalars,
    )
    return [
        memory if is_sound else None for memory, is_sound in zip(batch.all(), sound.tolist(), strict=True)
    ]


def _figures_of(values: Sequence[_Figures], shape: tuple[int, ...]) -> Floats:
    """Return a column of m upstreams; raise ValueError if it has another shape."""
    rows: Sequence[_Figures] = values
    if len(shape) > 2:
        nothing: list[float | None] = [None] * shape[2]
        rows = [[nothing if row is None else row for row in of_each] for of_each in values]
    # Without peers there are no rows to take the width from.
    figures = np.array(rows, dtype=np.float64) if shape[1] or any(values) else np.empty(shape)
    if figures.shape != shape:
        raise ValueError("the figures do not match the names of peers or indicators")
    return figures


def _is_within(bounds: Scalar, figures: Floats) -> Bools:
    """Return for each upstream whether all of its figures are within bounds."""
    inside = (figures >= bounds.low) & (figures <= bounds.high)
    if isnan(bounds.initial):
        inside |= np.isnan(figures)
    is_within: Bools = np.logical_and.reduce(inside, axis=tuple(range(1, inside.ndim)))
    return is_within
