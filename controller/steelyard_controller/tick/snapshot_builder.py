"""Builds the snapshot that the laws step on from the inbox.

Pure. A sample counts as new at one tick, and never again: that at which the
report of its window is there too (`window_pairing`), or else that at which it
arrived. So does a traffic report, when it arrives. The reports of all load
balancers are summed: one that is a little late is counted with its last
figures, because leaving it out would look like a drop in what the peers can
do. Latency is the mean over them, by their requests, of each one's median: one long request is not
a slow server. Where a balancer knows no median, its mean stands for it. What requests cost is known
where every balancer tells it.

A peer without an agent, or whose agent is silent, is judged by what it says in
its responses and the balancers report: the mean over them, by their requests.
An indicator beside the four is what ORCA calls a named utilization, or a named
metric where it is declared: only then is it known to be a utilization. Where `max_conns` is declared as one,
it is what load balancers have in flight at such a peer, as a part of that: the agent's "running" without one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
from steelyard_protocol.sample_record import INDICATOR_NAME, INDICATORS, MAX_FURTHER_UTILIZATION, SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.declarations.upstream import IN_FLIGHT_INDICATOR, Peer
from steelyard_controller.laws.snapshot import Floats, Snapshot
from steelyard_controller.messages.inbox import Inbox, Received, is_silent
from steelyard_controller.tick.window_pairing import DueSample

# A load balancer whose last report is older than this many ticks is left out of the sums.
LATE_REPORT_TICKS = 3

Row = tuple[float | None, ...]

Used = Mapping[str, float | None]
"""Utilizations by indicator: the four, and whatever else a server reports; None is "cannot be measured"."""

THE_FOUR: Mapping[str, float | None] = dict.fromkeys(INDICATORS)

NONE_GIVEN: Floats = np.empty(0)

# The prefix of ORCA's named utilizations where nginx reports them beside the named metrics.
_UTILIZATION = "utilization."

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

    `knees` has the indicators that count, in the order of the columns, each with its declared knee;
    `pinned` and `published` are the snapshot's, empty where there are none.
    `max_conns` is that of peers that have none of their own.
    `due` has the samples that are new at this tick; None: those that arrived at it.
    """
    if due is None:
        due = {
            peer: DueSample(received, 0)
            for peer, received in inbox.samples.items()
            if received.arrived_s == now_s and not received.message.leaving
        }
    count, names = len(peers), tuple(knees)
    unknown: Row = (None,) * len(names)
    # Lists, because to fill an array row by row takes ten times as long.
    used, limits = [unknown] * count, [_NO_CAPACITY] * count
    leaving, up_s = np.zeros(count, dtype=bool), np.full(count, np.nan)
    sample_age_ticks = np.zeros(count, dtype=np.int64)
    arrived = [received.message for received in inbox.reports.values() if received.arrived_s == now_s]
    told = [report for report in arrived if report.loads]
    for row, peer in enumerate(peers):
        received = inbox.samples.get(peer.id)
        if told and is_silent(received, now_s=now_s, tick_s=tick_s):
            in_band = in_band_utilization(told, peer.id, names)
            used[row] = unknown if in_band is None else tuple(map(in_band.get, names))
        if received is None:
            continue
        fresh = due.get(peer.id)
        # A load goes with the limits that it was measured against.
        message = received.message if fresh is None else fresh.sample.message
        limits[row] = message.capacity
        leaving[row] = received.message.leaving
        if received.message.leaving:
            used[row] = unknown
        elif fresh is not None:
            used[row] = (
                message.utilization
                if names == INDICATORS
                else tuple(map(sampled_utilization(message).get, names))
            )
            sample_age_ticks[row] = fresh.age_ticks
            if message.up_s is not None:
                up_s[row] = message.up_s
    utilization = _table(used, len(names))
    traffic = _traffic(inbox, peers, now_s=now_s, tick_s=tick_s)
    if IN_FLIGHT_INDICATOR in names and arrived:
        most = np.array([peer.max_conns or max_conns or np.nan for peer in peers])
        known = [is_silent(inbox.samples.get(peer.id), now_s=now_s, tick_s=tick_s) for peer in peers]
        known &= ~leaving & ~np.isnan(traffic["completed"])
        column = utilization[:, names.index(IN_FLIGHT_INDICATOR)]
        column[known] = np.minimum(traffic["in_flight"] / most, MAX_FURTHER_UTILIZATION)[known]
    return Snapshot(
        t_s=now_s,
        tick_s=tick_s,
        ids=tuple(peer.id for peer in peers),
        indicators=names,
        knees=np.array([np.nan if knee is None else knee for knee in knees.values()]),
        utilization=utilization,
        sample_age_ticks=sample_age_ticks,
        capacity=_table(limits, len(INDICATORS)),
        baseline=np.array(
            [np.nan if peer.baseline is None else peer.baseline for peer in peers], dtype=float
        ),
        leaving=leaving,
        eligible=np.array([peer.state == "up" for peer in peers], dtype=bool),
        pinned=pinned,
        published=published,
        up_s=up_s,
        **traffic,
    )


def sampled_utilization(record: SampleRecord) -> Used:
    """Return the utilizations of a sample by indicator."""
    return {**dict(zip(INDICATORS, record.utilization, strict=True)), **dict(record.further)}


def in_band_utilization(
    reports: Iterable[TrafficReport], peer: str, declared: Iterable[str] = ()
) -> Used | None:
    """Return the utilizations that a peer told the load balancers, by indicator; None if it told none.

    Of its named metrics those that are `declared`, and all that it calls utilizations.
    """
    told = [(max(done, 1), load) for done, load in (r.loads[peer] for r in reports if peer in r.loads)]
    names = {
        name.removeprefix(_UTILIZATION)
        for _, load in told
        for name in load.named_metrics
        if name.startswith(_UTILIZATION) or name in declared
    }
    used = {
        "cpu": _mean([(done, load.utilization) for done, load in told]),
        "net": None,
        "io": None,
        "mem": _mean([(done, load.mem_utilization) for done, load in told]),
        **{
            name: _mean([(done, _named(load.named_metrics, name)) for done, load in told])
            for name in sorted(names)
            if INDICATOR_NAME.fullmatch(name)
        },
    }
    return used if any(value is not None for value in used.values()) else None


def _named(metrics: Mapping[str, float], name: str) -> float | UnsetType:
    value = metrics.get(f"{_UTILIZATION}{name}", metrics.get(name))
    return value if value is not None and 0 <= value <= MAX_FURTHER_UTILIZATION else UNSET


def _mean(figures: Sequence[tuple[int, float | UnsetType]]) -> float | None:
    known = [(weight, value) for weight, value in figures if value is not UNSET]
    weights = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / weights if known else None


def _table(rows: list[Row], width: int) -> Floats:
    """Return a row of `width` for each peer; what is None is NaN."""
    return np.array(rows, dtype=float).reshape(len(rows), width)


def _traffic(inbox: Inbox, peers: Sequence[Peer], *, now_s: float, tick_s: float) -> dict[str, Any]:
    """Return the snapshot's columns that are of the traffic reports, by name."""
    count = len(peers)
    # A last place for what is reported of others.
    completed, failed, in_flight, latencies_s, timed, cost = np.zeros((6, count + 1))
    reported = np.zeros(count + 1, dtype=bool)
    places = {peer.id: row for row, peer in enumerate(peers)}
    ids: Sequence[str] = ()
    rows = np.empty(0, dtype=np.intp)
    for received in current_reports(inbox, now_s=now_s, tick_s=tick_s):
        report = received.message
        if report.ids != ids:  # load balancers with the same table have the same ids
            ids = report.ids
            rows = np.array([places.get(peer, count) for peer in ids], dtype=np.intp)
        per_tick = tick_s / report.interval_s
        done = np.array(report.completed, dtype=float)
        median_ms = np.array(report.latency_p50_ms, dtype=float)
        latency_ms = np.where(np.isnan(median_ms), np.array(report.latency_ms, dtype=float), median_ms)
        known = ~np.isnan(latency_ms)
        reported[rows] = True
        completed[rows] += done * per_tick
        failed[rows] += np.array(report.failed, dtype=float) * per_tick
        in_flight[rows] += np.array(report.in_flight, dtype=float)
        latencies_s[rows] += np.where(known, done * latency_ms / 1000, 0.0)
        timed[rows] += np.where(known, done, 0.0)
        cost[rows] += np.nan if report.cost is None else np.array(report.cost, dtype=float) * per_tick
    latency_s = np.divide(latencies_s, timed, out=np.full(count + 1, np.nan), where=timed > 0)
    completed[~reported] = np.nan
    cost[~reported] = np.nan
    columns = {"completed": completed, "failed": failed, "in_flight": in_flight, "latency_s": latency_s}
    return {name: column[:count] for name, column in {**columns, "cost": cost}.items()}


def current_reports(inbox: Inbox, *, now_s: float, tick_s: float) -> list[Received[TrafficReport]]:
    """Return the reports that a tick counts: none where no new one arrived at it."""
    if not any(received.arrived_s == now_s for received in inbox.reports.values()):
        return []
    oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * tick_s
    return [received for received in inbox.reports.values() if received.arrived_s >= oldest_s]
