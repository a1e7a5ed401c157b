"""Builds the snapshots for the laws from the inboxes: those of many upstreams at once, in columns.

Pure. A sample counts as new at one tick only: when the report of its window is
there too (`window_pairing`), or else when it arrives. A traffic report counts
as new at its arrival. The reports of all load balancers are summed. A report
that is a little late counts with its last figures, because without them the
peers would seem to do less.

Latency is the mean of the balancers' medians, weighted by requests, so one long
request does not make a server slow. For a balancer without a median, its mean
stands in. The cost of requests is known if every balancer reports it.

A peer without an agent, or with a silent one, is judged by the loads in its
responses, as reported by the balancers: their mean, weighted by requests. ORCA's
named utilizations become further indicators. A named metric becomes one only if
it is declared, because only then is it known to be a utilization. With the
declared indicator `max_conns`, such a peer's value is its requests in flight
divided by its `max_conns`: this stands in for the agent's "running".

The figures of all upstreams are computed in flat columns, one upstream after the other. Upstreams with the
same number of servers and the same indicators then share a batch, in which each is a row.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from steelyard_protocol.sample_record import INDICATOR_NAME, INDICATORS, MAX_FURTHER_UTILIZATION
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.declarations.upstream import IN_FLIGHT_INDICATOR, Peer
from steelyard_controller.laws.headroom import ended_per_s
from steelyard_controller.laws.snapshot import Batch, Bools, Floats, Ints, Snapshot, stacked
from steelyard_controller.messages import newest_samples
from steelyard_controller.messages.inbox import Inbox
from steelyard_controller.messages.received import Received
from steelyard_controller.tick.declared_columns import DeclaredColumns
from steelyard_controller.tick.window_pairing import DueSamples, arrived_samples

# A load balancer whose last report is older than this many ticks is left out of the sums.
LATE_REPORT_TICKS = 3

Utilizations = Mapping[str, float | None]
"""Utilizations by indicator: the four, and any others that a server reports; None: cannot be measured."""

THE_FOUR: Mapping[str, float | None] = dict.fromkeys(INDICATORS)

NONE_GIVEN: Floats = np.empty(0)

# The prefix of ORCA's named utilizations; nginx reports them beside the named metrics.
_UTILIZATION_PREFIX = "utilization."


class SnapshotInput(Struct, frozen=True):
    """The input of one upstream's snapshot.

    pinned      the snapshot's column; empty: no peer is pinned
    published   the snapshot's column; empty: the law's own last decision
    """

    declared: DeclaredColumns
    inbox: Inbox
    pinned: Floats = NONE_GIVEN
    published: Floats = NONE_GIVEN


class Place(Struct, frozen=True):
    """An upstream's row of a batch.

    sampled       some of its samples are new
    ended_per_s   requests per second that ended in the tick; NaN: not reported
    """

    batch: Batch
    row: int
    sampled: bool
    ended_per_s: float


def build_snapshot(
    inbox: Inbox,
    peers: Sequence[Peer],
    *,
    now_s: float,
    tick_s: float,
    knees: Mapping[str, float | None] = THE_FOUR,
    max_conns: int | None = None,
) -> Snapshot:
    """Return one upstream's snapshot of the tick at `now_s`: all samples that arrived at it are new.

    Arguments are those of `DeclaredColumns.of`.
    """
    declared = DeclaredColumns.of(peers, knees, max_conns)
    inbox = replace(inbox, samples=inbox.samples.aligned(declared.places))
    due = arrived_samples([inbox.samples], now_s=now_s)
    (place,) = build_batches([SnapshotInput(declared, inbox)], due, now_s=now_s, tick_s=tick_s)
    return place.batch.snapshot(place.row)


def build_batches(
    inputs: Sequence[SnapshotInput], due: DueSamples, *, now_s: float, tick_s: float
) -> list[Place]:
    """Return the place of each upstream's snapshot of the tick at `now_s`.

    `due` has the samples that are new at this tick, for all peers of these upstreams in turn.
    """
    alike: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    for number, each in enumerate(inputs):
        alike[len(each.declared.ids), each.declared.indicators].append(number)
    current = [current_reports(each.inbox, now_s=now_s, tick_s=tick_s) for each in inputs]
    loaded = {number for number, its in enumerate(current) for each in its if each.message.loads}
    flat = _sample_columns(due) | _traffic_columns(inputs, current, tick_s=tick_s)
    sizes = [len(each.declared.ids) for each in inputs]
    first = np.cumsum([0, *sizes])
    places: dict[int, Place] = {}
    for (count, indicators), numbers in alike.items():
        rows = first[numbers][:, None] + np.arange(count)
        columns = {name: column[rows] for name, column in flat.items()}
        some = [inputs[number] for number in numbers]
        batch = Batch(
            t_s=(now_s,) * len(some),
            ids=tuple(each.declared.ids for each in some),
            k=count,
            indicators=indicators,
            tick_s=tick_s,
            report_age_ticks=0,
            utilization=_utilization(due, rows, indicators),
            knees=stacked([each.declared.knees for each in some]),
            baseline=stacked([each.declared.baseline for each in some]),
            eligible=stacked([each.declared.eligible for each in some]),
            pinned=_given([each.pinned for each in some], count),
            published=_given([each.published for each in some], count),
            **columns,
        )
        is_due = due.is_due[rows]
        by_in_flight = IN_FLIGHT_INDICATOR in indicators
        sampled: list[bool] = np.logical_or.reduce(is_due, axis=1).tolist()
        ended: list[float] = ended_per_s(batch.completed, batch.failed, tick_s).tolist()
        for row, number in enumerate(numbers):
            if by_in_flight or number in loaded:
                new = [report.message for report in current[number] if report.arrived_s == now_s]
                _take_in_band(batch, row, inputs[number], new, is_due[row], now_s=now_s, tick_s=tick_s)
            places[number] = Place(batch, row, sampled[row], ended[row])
    return [places[number] for number in range(len(inputs))]


def _given(columns: Sequence[Floats], count: int) -> Floats:
    """Return optional columns as an array, m x k, with NaN for an empty one."""
    given = np.full((len(columns), count), np.nan)
    for row, column in enumerate(columns):
        if column.size:
            given[row] = column
    return given


def _sample_columns(due: DueSamples) -> dict[str, Any]:
    """Return the columns that samples fill, N peers each, without their utilization."""
    leaving = due.figures[newest_samples.LEAVING] == 1
    counts = due.is_due & ~leaving
    return {
        "leaving": leaving,
        "sample_age_ticks": np.where(counts, due.age_ticks, 0),
        "up_s": np.where(counts, due.figures[newest_samples.UP_S], np.nan),
        # A load goes with the limits that it was measured against.
        "capacity": due.figures[newest_samples.CAPACITY].T,
    }


def _utilization(due: DueSamples, rows: Ints, indicators: tuple[str, ...]) -> Floats:
    """Return the utilizations of the due samples of the peers in these rows, m x k x n; NaN for others."""
    counts = due.is_due & (due.figures[newest_samples.LEAVING] != 1)
    four = np.where(counts, due.figures[newest_samples.UTILIZATION], np.nan).T[rows]
    if indicators == INDICATORS:
        return four
    utilization = np.full((*rows.shape, len(indicators)), np.nan)
    for column, name in enumerate(indicators):
        if name in INDICATORS:
            utilization[..., column] = four[..., INDICATORS.index(name)]
        else:
            named = [[due.further[place].get(name) for place in its] for its in rows.tolist()]
            utilization[..., column] = np.where(counts[rows], np.array(named, dtype=float), np.nan)
    return utilization


def _take_in_band(
    batch: Batch,
    row: int,
    upstream: SnapshotInput,
    new: Sequence[TrafficReport],
    is_due: Bools,
    *,
    now_s: float,
    tick_s: float,
) -> None:
    """Put in the utilizations of servers without an agent, or with a silent one, from the `new` reports."""
    inbox, declared = upstream.inbox, upstream.declared
    loaded = [report for report in new if report.loads]
    silent = inbox.samples.silent(now_s=now_s, tick_s=tick_s) & ~batch.leaving[row]
    if loaded:
        for place in np.flatnonzero(silent & ~is_due).tolist():
            reported = in_band_utilization(loaded, declared.ids[place], batch.indicators)
            if reported is not None:
                batch.utilization[row, place] = [
                    np.nan if value is None else value for value in map(reported.get, batch.indicators)
                ]
    if new and IN_FLIGHT_INDICATOR in batch.indicators:
        judged = silent & ~np.isnan(batch.completed[row])
        share = np.minimum(batch.in_flight[row] / declared.max_conns, MAX_FURTHER_UTILIZATION)
        batch.utilization[row, judged, batch.indicators.index(IN_FLIGHT_INDICATOR)] = share[judged]


def in_band_utilization(
    reports: Iterable[TrafficReport], peer: str, declared: Iterable[str] = ()
) -> Utilizations | None:
    """Return the utilizations from a peer's responses, by indicator; None if there are none.

    All named utilizations count, but only the `declared` ones among the named metrics.
    """
    loads = [(max(done, 1), load) for done, load in (r.loads[peer] for r in reports if peer in r.loads)]
    names = {
        name.removeprefix(_UTILIZATION_PREFIX)
        for _, load in loads
        for name in load.named_metrics
        if name.startswith(_UTILIZATION_PREFIX) or name in declared
    }
    utilizations = {
        "cpu": _mean([(done, load.utilization) for done, load in loads]),
        "net": None,
        "io": None,
        "mem": _mean([(done, load.mem_utilization) for done, load in loads]),
        **{
            name: _mean([(done, _named_utilization(load.named_metrics, name)) for done, load in loads])
            for name in sorted(names)
            if INDICATOR_NAME.fullmatch(name)
        },
    }
    return utilizations if any(value is not None for value in utilizations.values()) else None


def _named_utilization(metrics: Mapping[str, float], name: str) -> float | UnsetType:
    value = metrics.get(f"{_UTILIZATION_PREFIX}{name}", metrics.get(name))
    return value if value is not None and 0 <= value <= MAX_FURTHER_UTILIZATION else UNSET


def _mean(values: Sequence[tuple[int, float | UnsetType]]) -> float | None:
    """Return the mean of (weight, value) pairs, without the unset values; None if all are unset."""
    known = [(weight, value) for weight, value in values if value is not UNSET]
    weights = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / weights if known else None


def _traffic_columns(
    inputs: Sequence[SnapshotInput], current: Sequence[Sequence[Received[TrafficReport]]], *, tick_s: float
) -> dict[str, Floats]:
    """Return the snapshots' columns from the current traffic reports by name, N peers each."""
    sizes = [len(each.declared.ids) for each in inputs]
    first, count = np.cumsum([0, *sizes]), sum(sizes)
    # The last place takes the figures of servers that are not among the peers.
    completed, failed, in_flight, latencies_s, timed, cost = np.zeros((6, count + 1))
    reported = np.zeros(count + 1, dtype=bool)
    # One report of each upstream at a time, so that each sum is in the order of the load balancers.
    for turn in range(max(map(len, current), default=0)):
        numbers = [number for number, its in enumerate(current) if len(its) > turn]
        reports = [current[number][turn].message for number in numbers]
        places = np.concatenate(
            [
                inputs[number].declared.places_of(report.ids)
                for number, report in zip(numbers, reports, strict=True)
            ]
        )
        lengths = [len(report.ids) for report in reports]
        rows = np.where(places < 0, count, places + first[numbers].repeat(lengths))
        per_tick = np.array([tick_s / report.interval_s for report in reports]).repeat(lengths)
        done = _joined([report.completed for report in reports])
        latency_ms = _latency_ms(reports)
        has_latency = ~np.isnan(latency_ms)
        reported[rows] = True
        completed[rows] += done * per_tick
        failed[rows] += _joined([report.failed for report in reports]) * per_tick
        in_flight[rows] += _joined([report.in_flight for report in reports])
        latencies_s[rows] += np.where(has_latency, done * latency_ms / 1000, 0.0)
        timed[rows] += np.where(has_latency, done, 0.0)
        if any(report.cost for report in reports):
            costs = (report.cost or [np.nan] * len(report.ids) for report in reports)
            cost[rows] += _joined(costs) * per_tick
        else:
            cost[rows] = np.nan
    latency_s = np.divide(latencies_s, timed, out=np.full(count + 1, np.nan), where=timed > 0)
    completed[~reported] = np.nan
    cost[~reported] = np.nan
    columns = {"completed": completed, "failed": failed, "in_flight": in_flight, "latency_s": latency_s}
    return {name: column[:count] for name, column in {**columns, "cost": cost}.items()}


def _latency_ms(reports: Sequence[TrafficReport]) -> Floats:
    """Return the medians of these reports one after the other; without a median, the mean."""
    mean_ms = _joined([report.latency_ms for report in reports])
    if all(report.latency_p50_ms.count(None) == len(report.ids) for report in reports):
        return mean_ms
    median_ms = _joined([report.latency_p50_ms for report in reports])
    return np.where(np.isnan(median_ms), mean_ms, median_ms)


def _joined(columns: Iterable[Sequence[float | None]]) -> Floats:
    """Return columns one after the other; None becomes NaN."""
    return np.array(list(chain.from_iterable(columns)), dtype=float)


def current_reports(inbox: Inbox, *, now_s: float, tick_s: float) -> list[Received[TrafficReport]]:
    """Return the reports that count at a tick: none if no new one arrived at it."""
    if now_s not in [received.arrived_s for received in inbox.reports.values()]:
        return []
    oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * tick_s
    return [received for received in inbox.reports.values() if received.arrived_s >= oldest_s]
