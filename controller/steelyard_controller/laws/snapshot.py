"""The input of a law at one tick: a table with a row for each peer.

Pure. The table is numpy arrays, one a column, because a law must step 10,000 peers in some tens of
milliseconds. Missing figures are NaN, never a guess:

- a row of `utilization` with NaN alone: no new sample of that peer at this tick
- a single NaN in a row: that indicator cannot be measured there
- `completed` NaN: no traffic report for that peer at this tick
"""

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

INDICATORS = ("cpu", "net", "io", "mem")
"""The four that every agent measures, in the order of the paper and of the sample record."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# CPU may exceed its limit, but 64 times is a broken reader (the wire format's bound).
MAX_UTILIZATION = 64.0

# Above this knee, the rest of an indicator is one step of its reader.
MAX_KNEE = 0.99

# No real count or capacity is larger; sums of 10,000 of them stay exact enough.
MAX_FIGURE = 1e15

# Ticks for which a peer's last sample counts; the paper has a sample of every peer at every tick.
SAMPLE_PATIENCE_TICKS = 3

# A reduction of so few figures takes less time than to take their table apart.
FEW_FIGURES = 400

# Smaller figures count as 0 (a request in thirty years, a nanosecond), so that no quotient overflows.
SMALLEST_FIGURE = 1e-9


def _no_floats() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of a snapshot and of a batch; a batch has all of them."""

    utilization: Floats
    sample_age_ticks: Ints
    capacity: Floats
    baseline: Floats
    completed: Floats
    failed: Floats
    in_flight: Floats
    latency_s: Floats
    leaving: Bools
    knees: Floats = field(default_factory=_no_floats)
    eligible: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    pinned: Floats = field(default_factory=_no_floats)
    published: Floats = field(default_factory=_no_floats)
    up_s: Floats = field(default_factory=_no_floats)
    cost: Floats = field(default_factory=_no_floats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot(_Columns):
    """The inputs of one tick, k peers by n indicators.

    ids            k names, unique; the order of every other column
    tick_s         T, seconds since the previous tick
    utilization    k x n, 0..1 (CPU and further indicators may exceed 1)
    sample_age_ticks   k, ticks since the sample's window ended, the window of a report of that age
    capacity       k x 4 absolute: cores, bytes/s, IO/s, bytes of the hardware; NaN: unknown
    baseline       k, the operator's weights; NaN: derive from capacity (eq 5)
    report_age_ticks   ticks since the traffic report's window ended
    completed, failed, in_flight   k, requests per window, and at its end, all load balancers summed
    latency_s      k, time to the response's header, of a usual request (the mean of the load balancers'
                   medians, by requests); NaN: nothing was completed
    leaving        k, the agent reported that the server is stopping

    Optional columns have defaults:

    indicators     n names, the columns of `utilization`: those of the four first (default: the four)
    knees          n, 0..1: utilization below it does not count as load; NaN: the law's own (default)
    eligible       k, False for a peer without requests now (drain, down, backup). It keeps a weight, learns
                   nothing, and is not compared with others (default: all True)
    pinned         k, a weight that a person fixed, on the scale of `Decision.weights` (of S);
                   NaN: not pinned (default). The others share the rest
    cost           k, cost of the window's completed requests, in any unit; NaN: not reported (default)
    up_s           k, time that the server has been up; NaN: not known (default)
    published      k, the weights that traffic really follows while another law is live, in any scale;
                   NaN: those of this law's own last decision (default)

    Raises ValueError for a column of the wrong shape or a repeated id, bugs of the caller.
    """

    t_s: float
    ids: tuple[str, ...]
    report_age_ticks: int = 0
    tick_s: float = 1.0
    indicators: tuple[str, ...] = INDICATORS

    def __post_init__(self) -> None:
        k = len(self.ids)
        if len(set(self.ids)) != k:
            raise ValueError("an id occurs twice in the snapshot")
        n = len(self.indicators)
        if n == 0 or len(set(self.indicators)) != n:
            raise ValueError("the snapshot has no indicator, or one occurs twice")
        tables = {"utilization": (k, n), "capacity": (k, len(INDICATORS)), "knees": (n,)}
        for name, shape in (tables | dict.fromkeys(_COLUMNS, (k,))).items():
            given = getattr(self, name)
            if given.shape == shape:
                continue
            if name not in _MAY_LACK or given.size > 0:
                raise ValueError(f"{name} has shape {given.shape}, not {shape}")
            object.__setattr__(self, name, np.full(shape, _MAY_LACK[name]))

    def first(self, count: int, ids: Sequence[str]) -> "Snapshot":
        """Return the snapshot of the first `count` peers, with the first of these names."""
        columns: Any = {name: getattr(self, name)[:count] for name in ("utilization", "capacity", *_COLUMNS)}
        return replace(self, ids=tuple(ids[:count]), **columns)


# Figures in place of an empty column.
_MAY_LACK = {"eligible": True, **dict.fromkeys(("pinned", "published", "up_s", "cost", "knees"), np.nan)}

_COLUMNS = tuple(
    each.name for each in fields(_Columns) if each.name not in {"utilization", "capacity", "knees"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(_Columns):
    """The snapshots of m upstreams that are `alike`, for a law to step on at once.

    The columns (m x k, m x k x n or m x n) are those of a `Snapshot`, with the upstreams as the first axis.
    A single figure of an upstream is m x 1, so that it combines with them. One upstream is a batch of one.
    Laws step on `cleaned` batches only.
    """

    t_s: tuple[float, ...]
    ids: tuple[tuple[str, ...], ...]
    k: int
    indicators: tuple[str, ...]
    tick_s: float
    report_age_ticks: int

    @property
    def shape(self) -> Hashable:
        """Return the `alike` of its snapshots."""
        return self.k, self.indicators, self.tick_s, self.report_age_ticks

    def snapshot(self, row: int) -> Snapshot:
        """Return the snapshot of one upstream; its columns are views."""
        return _Row.of(self, row)

    def of(self, rows: Sequence[int]) -> "Batch":
        """Return the batch of some of its upstreams."""
        if list(rows) == list(range(len(self.ids))):
            return self
        columns: Any = {each.name: getattr(self, each.name)[rows] for each in fields(_Columns)}
        return replace(
            self,
            t_s=tuple(self.t_s[row] for row in rows),
            ids=tuple(self.ids[row] for row in rows),
            **columns,
        )


class _Row(Snapshot):
    """A snapshot in a batch. A tick makes thousands and reads few columns: each is made when it is read."""

    __slots__ = ("_batch", "_row")

    _batch: Batch
    _row: int

    @classmethod
    def of(cls, batch: Batch, row: int) -> "_Row":
        # Without the checks of the shapes: those of a batch are right.
        snapshot = object.__new__(cls)
        object.__setattr__(snapshot, "_batch", batch)
        object.__setattr__(snapshot, "_row", row)
        return snapshot

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a column or a figure
        # Python asks here for a field that is not set.
        if name in _Row.__slots__:
            raise AttributeError(name)
        of_batch = getattr(self._batch, name)
        field_of_row = of_batch if name in _OF_BATCH else of_batch[self._row]
        object.__setattr__(self, name, field_of_row)
        return field_of_row


_OF_BATCH = frozenset(("indicators", "tick_s", "report_age_ticks"))


def alike(snapshot: Snapshot) -> Hashable:
    """Return a key that is equal for snapshots of one batch."""
    return len(snapshot.ids), snapshot.indicators, snapshot.tick_s, snapshot.report_age_ticks


def batch_of(snapshots: Sequence[Snapshot]) -> Batch:
    """Return the `cleaned` batch of one or more snapshots."""
    first = snapshots[0]
    columns: Any = {
        each.name: stacked([getattr(snapshot, each.name) for snapshot in snapshots])
        for each in fields(_Columns)
    }
    return cleaned(
        Batch(
            t_s=tuple(each.t_s for each in snapshots),
            ids=tuple(each.ids for each in snapshots),
            k=len(first.ids),
            indicators=first.indicators,
            tick_s=first.tick_s,
            report_age_ticks=first.report_age_ticks,
            **columns,
        )
    )


def cleaned(batch: Batch) -> Batch:
    """Return a batch with impossible figures as "not known" (NaN).

    A broken reader sends infinite, negative or absurdly large figures. With them, one agent could move the
    weights of the whole upstream. Absurdly small figures become 0.
    """

    def figures(*names: str, low: float = 0.0) -> dict[str, Any]:
        together = stacked([getattr(batch, name) for name in names])
        return dict(zip(names, _within(together, low, MAX_FIGURE), strict=True))

    return replace(
        batch,
        # A tick far from its period comes from a stalled or stepped clock, which must not fade a memory.
        tick_s=min(max(batch.tick_s, 0.01), 60.0) if np.isfinite(batch.tick_s) else 1.0,
        report_age_ticks=max(0, batch.report_age_ticks),
        utilization=_within(batch.utilization, 0.0, MAX_UTILIZATION),
        sample_age_ticks=np.maximum(batch.sample_age_ticks, 0),
        capacity=_within(batch.capacity, 0.0, MAX_FIGURE),
        knees=_within(batch.knees, 0.0, MAX_KNEE),
        **figures("baseline", "pinned", low=1.0 / MAX_FIGURE),
        **figures("completed", "failed", "in_flight", "latency_s", "published", "up_s", "cost"),
    )


def stacked(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns of one shape as one array, with a new first axis."""
    # np.stack takes several times as long to start.
    if len(columns) == 1:
        return columns[0][None]
    return np.concatenate(columns).reshape(len(columns), *columns[0].shape)


def indicator_column(table: Floats, indicators: tuple[str, ...], name: str) -> Floats:
    """Return the column of one indicator of a table, k x n; NaN for an unknown name."""
    if name not in indicators:
        return np.full(table.shape[:-1], np.nan)
    column: Floats = table[..., indicators.index(name)]
    return column


def measured_rows(table: Floats) -> Bools:
    """Return for each row whether any figure in it is known."""
    return over_rows(np.logical_or, ~np.isnan(table))


def over_rows(operation: np.ufunc, table: NDArray[Any]) -> NDArray[Any]:
    """Return the result of an operation of two figures over each row."""
    if table.size <= FEW_FIGURES:
        few: NDArray[Any] = operation.reduce(table, axis=-1)
        return few
    # Column by column: of 4,000 rows of four figures, numpy's own way takes four to twelve times as long.
    return functools.reduce(operation, [table[..., column] for column in range(table.shape[-1])])


def _within(column: Floats, low: float, high: float) -> Floats:
    known = np.where((column >= low) & (column <= high), column, np.nan)
    return known if low > 0 else np.where(known < SMALLEST_FIGURE, 0.0, known)
