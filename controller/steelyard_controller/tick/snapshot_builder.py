"""Builds the snapshot that the laws step on from the inbox.

Pure. A sample counts as new at one tick, and never again: that at which the
report of its window is there too (`window_pairing`), or else that at which it
arrived. So does a traffic report, when it arrives. The reports of all load
balancers are summed: one that is a little late is counted with its last
figures, because leaving it out would look like a drop in what the peers can
do. Latency is the mean over them, by their requests, of each one's median: one long request is not
a slow server. Where a balancer knows no median, its mean stands for it.

A peer without an agent, or whose agent is silent, is judged by what it says in
its responses and the balancers report: the mean over them, by their requests.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import UNSET, UnsetType
from steelyard_protocol.sample_record import INDICATORS, SampleRecord
from steelyard_protocol.traffic_report import TrafficReport

from steelyard_controller.declarations.upstream import Peer
from steelyard_controller.laws.snapshot import Floats, Snapshot
from steelyard_controller.messages.inbox import Inbox, Received
from steelyard_controller.tick.window_pairing import DueSample

# A load balancer whose last report is older than this many ticks is left out of the sums.
LATE_REPORT_TICKS = 3

# An agent that has missed so many of its own intervals, or of the controller's ticks, is silent.
SILENT_AGENT_INTERVALS = 3

Row = tuple[float | None, ...]

_UNKNOWN: Row = (None,) * len(INDICATORS)


def build_snapshot(
    inbox: Inbox,
    peers: Sequence[Peer],
    *,
    now_s: float,
    tick_s: float,
    due: Mapping[str, DueSample] | None = None,
) -> Snapshot:
    """Return the snapshot of the tick at `now_s`; every array is in the order of `peers`.

    `due` has the samples that are new at this tick; None: those that arrived at it.
    """
    if due is None:
        due = {
            peer: DueSample(received, 0)
            for peer, received in inbox.samples.items()
            if received.arrived_s == now_s and not received.message.leaving
        }
    count = len(peers)
    # Lists, because to fill an array row by row takes ten times as long.
    used, limits = [_UNKNOWN] * count, [_UNKNOWN] * count
    leaving = np.zeros(count, dtype=bool)
    sample_age_ticks = np.zeros(count, dtype=np.int64)
    arrived = [received.message for received in inbox.reports.values() if received.arrived_s == now_s]
    told = [report for report in arrived if report.loads]
    for row, peer in enumerate(peers):
        received = inbox.samples.get(peer.id)
        if told and (received is None or _silent(received, now_s=now_s, tick_s=tick_s)):
            used[row] = in_band_utilization(told, peer.id) or _UNKNOWN
        if received is None:
            continue
        fresh = due.get(peer.id)
        # A load goes with the limits that it was measured against.
        message = received.message if fresh is None else fresh.sample.message
        limits[row] = message.capacity
        leaving[row] = received.message.leaving
        if received.message.leaving:
            used[row] = _UNKNOWN
        elif fresh is not None:
            used[row] = message.utilization
            sample_age_ticks[row] = fresh.age_ticks
    completed, failed, in_flight, latency_s = _traffic(inbox, peers, now_s=now_s, tick_s=tick_s)
    return Snapshot(
        t_s=now_s,
        tick_s=tick_s,
        ids=tuple(peer.id for peer in peers),
        utilization=_table(used),
        sample_age_ticks=sample_age_ticks,
        capacity=_table(limits),
        baseline=np.array(
            [np.nan if peer.baseline is None else peer.baseline for peer in peers], dtype=float
        ),
        completed=completed,
        failed=failed,
        in_flight=in_flight,
        latency_s=latency_s,
        leaving=leaving,
        eligible=np.array([peer.state == "up" for peer in peers], dtype=bool),
    )


def in_band_utilization(reports: Iterable[TrafficReport], peer: str) -> Row | None:
    """Return the indicators (cpu, net, io, mem) that a peer told the load balancers; None if it told none."""
    told = [report.loads[peer] for report in reports if peer in report.loads]
    cpu = _mean([(max(completed, 1), load.utilization) for completed, load in told])
    mem = _mean([(max(completed, 1), load.mem_utilization) for completed, load in told])
    return None if cpu is None and mem is None else (cpu, None, None, mem)


def _mean(figures: Sequence[tuple[int, float | UnsetType]]) -> float | None:
    known = [(weight, value) for weight, value in figures if value is not UNSET]
    weights = sum(weight for weight, _ in known)
    return sum(weight * value for weight, value in known) / weights if known else None


def _silent(received: Received[SampleRecord], *, now_s: float, tick_s: float) -> bool:
    patience_s = SILENT_AGENT_INTERVALS * max(received.message.interval_s, tick_s)
    return now_s - received.arrived_s > patience_s


def _table(rows: list[Row]) -> Floats:
    """Return a row for each peer; what is None is NaN."""
    return np.array(rows, dtype=float).reshape(len(rows), len(INDICATORS))


def _traffic(
    inbox: Inbox, peers: Sequence[Peer], *, now_s: float, tick_s: float
) -> tuple[Floats, Floats, Floats, Floats]:
    count = len(peers)
    # A last place for what is reported of others.
    completed, failed, in_flight, latencies_s, timed = np.zeros((5, count + 1))
    reported = np.zeros(count + 1, dtype=bool)
    places = {peer.id: row for row, peer in enumerate(peers)}
    ids: Sequence[str] = ()
    rows = np.empty(0, dtype=np.intp)
    for received in _current(inbox, now_s=now_s, tick_s=tick_s):
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
    latency_s = np.divide(latencies_s, timed, out=np.full(count + 1, np.nan), where=timed > 0)
    completed[~reported] = np.nan
    return completed[:count], failed[:count], in_flight[:count], latency_s[:count]


def _current(inbox: Inbox, *, now_s: float, tick_s: float) -> list[Received[TrafficReport]]:
    if not any(received.arrived_s == now_s for received in inbox.reports.values()):
        return []
    oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * tick_s
    return [received for received in inbox.reports.values() if received.arrived_s >= oldest_s]
