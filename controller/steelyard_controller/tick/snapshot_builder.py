"""Builds the snapshot for the laws from the inbox.

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
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
from steelyard_protocol.sample_record import INDICATOR_NAME, INDICATORS, MAX_FURTHER_UTILIZATION, SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.declarations.upstream import IN_FLIGHT_INDICATOR, Peer
from steelyard_controller.laws.snapshot import Bools, Floats, Ints, Snapshot
from steelyard_controller.messages.inbox import Inbox, Received, is_silent
from steelyard_controller.tick.window_pairing import DueSample

# A load balancer whose last report is older than this many ticks is left out of the sums.
LATE_REPORT_TICKS = 3

Row = tuple[float | None, ...]

Utilizations = Mapping[str, float | None]
"""Utilizations by indicator: the four, and any others that a server reports; None: cannot be measured."""

THE_FOUR: Mapping[str, float | None] = dict.fromkeys(INDICATORS)

NONE_GIVEN: Floats = np.empty(0)

# The prefix of ORCA's named utilizations; nginx reports them beside the named metrics.
_UTILIZATION_PREFIX = "utilization."

_NO_CAPACITY: Row = (None,) * len(INDICATORS)


def build_snapshot(
    inbox: Inbox,
    peers: Sequence[Peer],
    *,
    now_s: float,
    tick_s: float,
    due: Mapping[str, DueSample] | None = None,
    knees: Mapping[str, float | None] = THE_FOUR,
    pinned: Floats = NONE_GIVEN,
    published: Floats = NONE_GIVEN,
    max_conns: int | None = None,
) -> Snapshot:
    """Return the snapshot of the tick at `now_s`; every array is in the order of `peers`.

    due         the samples that are new at this tick; None: those that arrived at it
    knees       the declared knee of each indicator that counts, in the order of the columns
    pinned      the snapshot's column; empty: no peer is pinned
    published   the snapshot's column; empty: the law's own last decision
    max_conns   the limit of peers without one of their own
    """
    if due is None:
        due = _arrived_samples(inbox, now_s)
    names = tuple(knees)
    new_reports = [received.message for received in inbox.reports.values() if received.arrived_s == now_s]
    rows = _in_band_rows(inbox, peers, new_reports, names, now_s=now_s, tick_s=tick_s)
    samples = _sample_columns(inbox, peers, due, names, rows)
    utilization = _table(rows, len(names))
    traffic = _traffic_columns(inbox, peers, now_s=now_s, tick_s=tick_s)
    if IN_FLIGHT_INDICATOR in names and new_reports:
        silent = [is_silent(inbox.samples.get(peer.id), now_s=now_s, tick_s=tick_s) for peer in peers]
        judged = np.array(silent, dtype=bool) & ~samples.leaving & ~np.isnan(traffic["completed"])
        limits = np.array([peer.max_conns or max_conns or np.nan for peer in peers])
        share = np.minimum(traffic["in_flight"] / limits, MAX_FURTHER_UTILIZATION)
        utilization[judged, names.index(IN_FLIGHT_INDICATOR)] = share[judged]
    return Snapshot(
        t_s=now_s,
        tick_s=tick_s,
        ids=tuple(peer.id for peer in peers),
        indicators=names,
        knees=np.array([np.nan if knee is None else knee for knee in knees.values()]),
        utilization=utilization,
        sample_age_ticks=samples.age_ticks,
        capacity=_table(samples.capacity, len(INDICATORS)),
        baseline=np.array(
            [np.nan if peer.baseline is None else peer.baseline for peer in peers], dtype=float
        ),
        leaving=samples.leaving,
        eligible=np.array([peer.state == "up" for peer in peers], dtype=bool),
        pinned=pinned,
        published=published,
        up_s=samples.up_s,
        **traffic,
    )


def _arrived_samples(inbox: Inbox, now_s: float) -> dict[str, DueSample]:
    """Return the samples that arrived at this tick, of servers that stay."""
    return {
        peer: DueSample(received, 0)
        for peer, received in inbox.samples.items()
        if received.arrived_s == now_s and not received.message.leaving
    }


def _in_band_rows(
    inbox: Inbox,
    peers: Sequence[Peer],
    reports: Iterable[TrafficReport],
    names: tuple[str, ...],
    *,
    now_s: float,
    tick_s: float,
) -> list[Row]:
    """Return a row of utilizations for each peer: of silent ones what they report in their responses."""
    unknown: Row = (None,) * len(names)
    # Lists, because filling an array row by row takes ten times as long.
    rows = [unknown] * len(peers)
    loaded = [report for report in reports if report.loads]
    if not loaded:
        return rows
    for row, peer in enumerate(peers):
        if is_silent(inbox.samples.get(peer.id), now_s=now_s, tick_s=tick_s):
            reported = in_band_utilization(loaded, peer.id, names)
            if reported is not None:
                rows[row] = tuple(map(reported.get, names))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _SampleColumns:
    capacity: list[Row]
    leaving: Bools
    up_s: Floats
    age_ticks: Ints


def _sample_columns(
    inbox: Inbox,
    peers: Sequence[Peer],
    due: Mapping[str, DueSample],
    names: tuple[str, ...],
    rows: list[Row],
) -> _SampleColumns:
    """Return the columns that samples fill; put the utilizations of the due ones into `rows`."""
    count = len(peers)
    unknown: Row = (None,) * len(names)
    columns = _SampleColumns(
        capacity=[_NO_CAPACITY] * count,
        leaving=np.zeros(count, dtype=bool),
        up_s=np.full(count, np.nan),
        age_ticks=np.zeros(count, dtype=np.int64),
    )
    for row, peer in enumerate(peers):
        received = inbox.samples.get(peer.id)
        if received is None:
            continue
        fresh = due.get(peer.id)
        # A load goes with the limits that it was measured against.
        message = received.message if fresh is None else fresh.sample.message
        columns.capacity[row] = message.capacity
        columns.leaving[row] = received.message.leaving
        if received.message.leaving:
            rows[row] = unknown
        elif fresh is not None:
            rows[row] = _sampled_row(message, names)
            columns.age_ticks[row] = fresh.age_ticks
            if message.up_s is not None:
                columns.up_s[row] = message.up_s
    return columns


def _sampled_row(record: SampleRecord, names: tuple[str, ...]) -> Row:
    if names == INDICATORS:
        return record.utilization
    return tuple(map(sampled_utilization(record).get, names))


def sampled_utilization(record: SampleRecord) -> Utilizations:
    """Return the utilizations of a sample by indicator."""
    return {**dict(zip(INDICATORS, record.utilization, strict=True)), **dict(record.further)}


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


def _table(rows: list[Row], width: int) -> Floats:
    """Return the rows as an array of this width; None becomes NaN."""
    return np.array(rows, dtype=float).reshape(len(rows), width)


def _traffic_columns(inbox: Inbox, peers: Sequence[Peer], *, now_s: float, tick_s: float) -> dict[str, Any]:
    """Return the snapshot's columns from the traffic reports, by name."""
    count = len(peers)
    # The last place takes the figures of servers that are not among these peers.
    completed, failed, in_flight, latencies_s, timed, cost = np.zeros((6, count + 1))
    reported = np.zeros(count + 1, dtype=bool)
    places = {peer.id: row for row, peer in enumerate(peers)}
    ids: Sequence[str] = ()
    rows = np.empty(0, dtype=np.intp)
    for received in current_reports(inbox, now_s=now_s, tick_s=tick_s):
        report = received.message
        if report.ids != ids:  # Load balancers with the same table have the same ids.
            ids = report.ids
            rows = np.array([places.get(peer, count) for peer in ids], dtype=np.intp)
        per_tick = tick_s / report.interval_s
        done = np.array(report.completed, dtype=float)
        median_ms = np.array(report.latency_p50_ms, dtype=float)
        latency_ms = np.where(np.isnan(median_ms), np.array(report.latency_ms, dtype=float), median_ms)
        has_latency = ~np.isnan(latency_ms)
        reported[rows] = True
        completed[rows] += done * per_tick
        failed[rows] += np.array(report.failed, dtype=float) * per_tick
        in_flight[rows] += np.array(report.in_flight, dtype=float)
        latencies_s[rows] += np.where(has_latency, done * latency_ms / 1000, 0.0)
        timed[rows] += np.where(has_latency, done, 0.0)
        cost[rows] += np.nan if report.cost is None else np.array(report.cost, dtype=float) * per_tick
    latency_s = np.divide(latencies_s, timed, out=np.full(count + 1, np.nan), where=timed > 0)
    completed[~reported] = np.nan
    cost[~reported] = np.nan
    columns = {"completed": completed, "failed": failed, "in_flight": in_flight, "latency_s": latency_s}
    return {name: column[:count] for name, column in {**columns, "cost": cost}.items()}


def current_reports(inbox: Inbox, *, now_s: float, tick_s: float) -> list[Received[TrafficReport]]:
    """Return the reports that count at a tick: none if no new one arrived at it."""
    if not any(received.arrived_s == now_s for received in inbox.reports.values()):
        return []
    oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * tick_s
    return [received for received in inbox.reports.values() if received.arrived_s >= oldest_s]
