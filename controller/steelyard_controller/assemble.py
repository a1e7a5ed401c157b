"""From what has arrived to what a law is told.

Pure. A sample counts as new at the tick at which it arrived, and never again;
so does a traffic report. The reports of all load balancers are summed: a
balancer that is a little late is counted with its last figures, because
leaving it out would look like a drop in what the peers can do.
"""

from collections.abc import Sequence

import numpy as np
from steelyard_agent.record import INDICATORS

from steelyard_controller.declared.upstream import Peer
from steelyard_controller.pipeline.held import Held
from steelyard_controller.pipeline.intake import Intake
from steelyard_controller.pipeline.traffic import TrafficReport
from steelyard_controller.snapshot import Snapshot

# A report older than this many ticks no longer stands for a load balancer that is merely late.
LATE_REPORT_TICKS = 3


def assemble(intake: Intake, peers: Sequence[Peer], *, now_s: float, tick_s: float) -> Snapshot:
    """Return the snapshot of the tick at `now_s`; every array is in the order of `peers`."""
    count = len(peers)
    utilization = np.full((count, len(INDICATORS)), np.nan)
    capacity = np.full((count, len(INDICATORS)), np.nan)
    leaving = np.zeros(count, dtype=bool)
    for row, peer in enumerate(peers):
        held = intake.samples.get(peer.id)
        if held is None:
            continue
        capacity[row] = [np.nan if value is None else value for value in held.message.capacity]
        leaving[row] = held.message.leaving
        if held.arrived_s == now_s and not held.message.leaving:
            utilization[row] = [np.nan if value is None else value for value in held.message.utilization]
    completed, failed, in_flight, latency_s = _traffic(intake, peers, now_s=now_s, tick_s=tick_s)
    return Snapshot(
        t_s=now_s,
        tick_s=tick_s,
        ids=tuple(peer.id for peer in peers),
        utilization=utilization,
        sample_age_ticks=np.zeros(count, dtype=np.int64),
        capacity=capacity,
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


def _traffic(
    intake: Intake, peers: Sequence[Peer], *, now_s: float, tick_s: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = len(peers)
    completed, failed, in_flight, busy_s = (np.zeros(count) for _ in range(4))
    reported = np.zeros(count, dtype=bool)
    timed = np.zeros(count)
    for held in _current(intake, now_s=now_s, tick_s=tick_s):
        per_tick = tick_s / held.message.interval_s
        for row, peer in enumerate(peers):
            figures = held.message.peers.get(peer.id)
            if figures is None:
                continue
            reported[row] = True
            completed[row] += figures.completed * per_tick
            failed[row] += figures.failed * per_tick
            in_flight[row] += figures.in_flight
            if figures.latency_ms is not None and figures.completed > 0:
                busy_s[row] += figures.completed * figures.latency_ms / 1000
                timed[row] += figures.completed
    latency_s = np.divide(busy_s, timed, out=np.full(count, np.nan), where=timed > 0)
    return np.where(reported, completed, np.nan), np.where(reported, failed, 0.0), in_flight, latency_s


def _current(intake: Intake, *, now_s: float, tick_s: float) -> list[Held[TrafficReport]]:
    if not any(held.arrived_s == now_s for held in intake.reports.values()):
        return []
    oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * tick_s
    return [held for held in intake.reports.values() if held.arrived_s >= oldest_s]
