"""A law's memory: columns keyed by peer ids, and a few scalars; a value.

Pure. Peers may join, leave or be reordered between two snapshots: `aligned` follows them. A `Schema` names
the columns with their initial values and bounds. `stored_memory` has the form in Redis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steelyard_controller.laws.shared_columns import Part
from steelyard_controller.laws.snapshot import INDICATORS, Floats

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    """One law's memories of the m upstreams of a batch: columns, m x k, and scalars, m x 1."""

    schema: Schema
    ids: tuple[tuple[str, ...], ...]
    indicators: tuple[str, ...]
    columns: Mapping[str, Floats]
    scalars: Mapping[str, Floats]

    def all(self) -> list[Memory]:
        """Return the memory of each upstream: its part of the columns and scalars."""
        return [_Row.of(self, row) for row in range(len(self.ids))]


class _Row(Memory):
    """A memory in a batch. The next tick takes the batch whole: a part is cut only when it is read."""

    __slots__ = ("batch", "row")

    batch: Memories
    row: int

    @classmethod
    def of(cls, batch: Memories, row: int) -> "_Row":
        memory = object.__new__(cls)
        object.__setattr__(memory, "batch", batch)
        object.__setattr__(memory, "row", row)
        return memory

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the type of the field
        # Python asks here for a field that is not set. A changed copy has all of them, and no batch.
        if name in _Row.__slots__:
            raise AttributeError(name)
        batch, row = self.batch, self.row
        figure: Any
        match name:
            case "law" | "version":
                figure = getattr(batch.schema, name)
            case "ids":
                figure = batch.ids[row]
            case "columns":
                figure = Part(batch.columns, row)
            case "scalars":
                figure = {each: of_all[row, 0] for each, of_all in batch.scalars.items()}
            case _:
                figure = getattr(batch, name)
        object.__setattr__(self, name, figure)
        return figure


def put_together(
    memories: Sequence[Memory], schema: Schema, ids: tuple[tuple[str, ...], ...], indicators: tuple[str, ...]
) -> Memories:
    """Return the memories of one law, `aligned` with these ids and indicators, as a batch."""
    together = as_batch(memories)
    if together is not None and together.ids == ids and together.indicators == indicators:
        return together
    alike = [aligned(each, schema, its, indicators) for each, its in zip(memories, ids, strict=True)]
    return Memories(
        schema=schema,
        ids=ids,
        indicators=indicators,
        columns={name: np.array([each.columns[name] for each in alike]) for name in alike[0].columns},
        scalars={
            name: np.array([each.scalars[name] for each in alike])[:, None] for name in alike[0].scalars
        },
    )


def as_batch(memories: Sequence[Memory]) -> Memories | None:
    """Return these memories as a part of the batch that they were in; None: they were in no single one."""
    batch: Memories | None = getattr(memories[0], "batch", None)
    if batch is None or any(getattr(each, "batch", None) is not batch for each in memories):
        return None
    rows = [each.row for each in memories if isinstance(each, _Row)]
    # The usual case: the upstreams that stepped together at the previous tick.
    if rows == list(range(len(batch.ids))):
        return batch
    return replace(
        batch,
        ids=tuple(batch.ids[row] for row in rows),
        columns={name: column[rows] for name, column in batch.columns.items()},
        scalars={name: column[rows] for name, column in batch.scalars.items()},
    )


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
    return np.full(shape_of(column, k, indicators), column.initial)


def shape_of(column: Column, k: int, indicators: tuple[str, ...]) -> tuple[int, ...]:
    """Return the shape of a column of k peers."""
    width = len(indicators) if column.by_indicator else column.width
    return (k, width) if width else (k,)
