"""The snapshot that a law decides on at one tick: a table with a row for each peer.

Pure. The rows are columns of numpy arrays, because a law must step 10,000
peers in some tens of milliseconds. Missing figures are NaN, never a guess:

- a row of `utilization` that is all NaN: no new sample of that peer this tick;
- a single NaN in a row: that indicator cannot be measured there;
- `completed` NaN: no traffic report for that peer this tick.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

INDICATORS = ("cpu", "net", "io", "mem")
"""The four that every agent measures, in the paper's order; the same as in the sample record."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# CPU may exceed its limit, but 64 times is a broken reader (the same bound as in the wire format).
MAX_UTILIZATION = 64.0

# Above it what is left of an indicator is one step of its reader.
MAX_KNEE = 0.99

# No real count or capacity is larger; sums of 10,000 of them stay exact enough.
MAX_FIGURE = 1e15

# So long a peer's last sample counts without a new one; the paper has one from everybody at every tick.
SAMPLE_PATIENCE_TICKS = 3

# Smaller figures count as 0 (a request in thirty years, a nanosecond), so that no quotient overflows.
SMALLEST_FIGURE = 1e-9


def _no_floats() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """What a snapshot has of each peer, and its knees; and so a batch, of which none is left out."""

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
    sample_age_ticks   k, how many ticks ago the sample's window ended: that of the report of age 0 then
    capacity       k x 4 absolute: cores, bytes/s, IO/s, bytes; NaN where unknown. It is the hardware's,
                   whichever indicators are used
    baseline       k, the operator's weights; NaN: derive from capacity (eq 5)
    report_age_ticks   how many ticks ago the traffic report's window ended
    completed, failed, in_flight   k, requests per window, and at its end, all load balancers summed
    latency_s      k, time to the response's header, of a usual request (the mean of the load balancers'
                   medians, by requests); NaN where nothing was completed
    leaving        k, the agent said that the server is being stopped

    Optional; what is not given is filled in:

    indicators     n names, the columns of `utilization`: those of the four first (default: the four)
    knees          n, 0..1: utilization below it does not count as load; NaN: the law's own (default)
    eligible       k, False for a peer that gets no requests now (drain, down, backup): it keeps
                   a weight, but others are not compared with it, and it learns nothing (default: all True)
    pinned         k, a weight that a person fixed, on the scale of `Decision.weights` (of S);
                   NaN: not pinned (default). The others share what is left
    cost           k, what the completed requests of the window cost, in any unit; NaN: not told (default)
    up_s           k, for how long the server has been up; NaN: not known (default)
    published      k, the weights that traffic really follows, in any scale, where another law is
                   live; NaN: those of this law's own last decision (default)

    Raises ValueError when a column has the wrong shape or an id comes twice: the caller's bug.
    """

    t_s: float
    ids: tuple[str, ...]
    report_age_ticks: int = 0
    tick_s: float = 1.0
    indicators: tuple[str, ...] = INDICATORS

    def __post_init__(self) -> None:
        k = len(self.ids)
        if len(set(self.ids)) != k:
            raise ValueError("an id comes twice in the snapshot")
        n = len(self.indicators)
        if n == 0 or len(set(self.indicators)) != n:
            raise ValueError("the snapshot has no indicator, or one comes twice")
        tables = {"utilization": (k, n), "capacity": (k, len(INDICATORS)), "knees": (n,)}
        for name, shape in (tables | dict.fromkeys(_COLUMNS, (k,))).items():
            given = getattr(self, name)
            if given.shape == shape:
                continue
            if name not in _MAY_LACK or given.size > 0:
                raise ValueError(f"{name} has shape {given.shape}, not {shape}")
            object.__setattr__(self, name, np.full(shape, _MAY_LACK[name]))

    def first(self, count: int, ids: Sequence[str]) -> "Snapshot":
        """Return the snapshot of the first `count` peers alone, with the first of these names."""
        columns: Any = {name: getattr(self, name)[:count] for name in ("utilization", "capacity", *_COLUMNS)}
        return replace(self, ids=tuple(ids[:count]), **columns)


# What is there instead of an empty column.
_MAY_LACK = {"eligible": True, **dict.fromkeys(("pinned", "published", "up_s", "cost", "knees"), np.nan)}

_COLUMNS = tuple(
    each.name for each in fields(_Columns) if each.name not in {"utilization", "capacity", "knees"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(_Columns):
    """The snapshots of m upstreams that are `alike`, cleaned, for a law to step on at once.

    The columns are those of a `Snapshot`, with the upstreams as the first axis: m x k, m x k x n, m x n.
    In a law, a figure of which an upstream has one is m x 1, so that it goes with them; one upstream is the
    batch of one.
    """

    t_s: tuple[float, ...]
    ids: tuple[tuple[str, ...], ...]
    k: int
    indicators: tuple[str, ...]
    tick_s: float
    report_age_ticks: int


def alike(snapshot: Snapshot) -> Hashable:
    """Return what is the same for snapshots that fit into one batch."""
    return len(snapshot.ids), snapshot.indicators, snapshot.tick_s, snapshot.report_age_ticks


def batch_of(snapshots: Sequence[Snapshot]) -> Batch:
    """Return the batch of one or more snapshots with every impossible figure turned into "not known" (NaN).

    A broken reader sends infinite, negative and absurdly large figures; with them one agent could move
    the weights of the whole upstream. Absurdly small figures become 0.
    """
    first = snapshots[0]

    def column(name: str) -> Any:  # noqa: ANN401 - an array of the column's type
        return stacked([getattr(each, name) for each in snapshots])

    def figures(*names: str, low: float = 0.0) -> dict[str, Any]:
        columns = stacked([getattr(each, name) for name in names for each in snapshots])
        together = columns.reshape(len(names), len(snapshots), -1)
        return dict(zip(names, _within(together, low, MAX_FIGURE), strict=True))

    return Batch(
        t_s=tuple(each.t_s for each in snapshots),
        ids=tuple(each.ids for each in snapshots),
        k=len(first.ids),
        indicators=first.indicators,
        # A tick far from its period comes from a stalled or stepped clock; no memory may fade for that.
        tick_s=min(max(first.tick_s, 0.01), 60.0) if np.isfinite(first.tick_s) else 1.0,
        report_age_ticks=max(0, first.report_age_ticks),
        utilization=_within(column("utilization"), 0.0, MAX_UTILIZATION),
        sample_age_ticks=np.maximum(column("sample_age_ticks"), 0),
        capacity=_within(column("capacity"), 0.0, MAX_FIGURE),
        leaving=column("leaving"),
        eligible=column("eligible"),
        knees=_within(column("knees"), 0.0, MAX_KNEE),
        **figures("baseline", "pinned", low=1.0 / MAX_FIGURE),
        **figures("completed", "failed", "in_flight", "latency_s", "published", "up_s", "cost"),
    )


def stacked(columns: Sequence[Floats]) -> Floats:
    """Return columns of the same shape as one, with a new first axis."""
    # As np.stack, which takes several times as long to begin.
    if len(columns) == 1:
        return columns[0][None]
    return np.concatenate(columns).reshape(len(columns), *columns[0].shape)


def unstacked(columns: Mapping[str, Any], m: int) -> list[dict[str, Any]]:
    """Return what is of each of the m upstreams, by name; arrays are views."""
    return [{name: of_each[row] for name, of_each in columns.items()} for row in range(m)]


def indicator_column(table: Floats, indicators: tuple[str, ...], name: str) -> Floats:
    """Return the column of one indicator of a table, k x n; NaN where it is none of them."""
    if name not in indicators:
        return np.full(table.shape[:-1], np.nan)
    column: Floats = table[..., indicators.index(name)]
    return column


def measured_rows(table: Floats) -> Bools:
    """Tell for each row whether any figure in it is known."""
    rows: Bools = np.logical_or.reduce(~np.isnan(table), axis=-1)
    return rows


def _within(column: Floats, low: float, high: float) -> Floats:
    known = np.where((column >= low) & (column <= high), column, np.nan)
    return known if low > 0 else np.where(known < SMALLEST_FIGURE, 0.0, known)
