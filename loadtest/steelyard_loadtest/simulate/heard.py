"""What the simulated controller has received, and the snapshot that its law is told of it.

Pure. `steelyard_controller.assemble` in columns, because that one walks every peer of every report
and the model has up to 10,000 times 256; a test holds the two side by side. A sample counts as new at
the tick at which it arrived and never again; the reports of all balancers are summed, a late one
with its last figures.
"""

from collections import deque

import numpy as np
from steelyard_controller.assemble import LATE_REPORT_TICKS
from steelyard_controller.snapshot import Snapshot

from steelyard_loadtest.simulate.balancer import Report
from steelyard_loadtest.simulate.model import Case, Floats, Server

# What machines of one core usually have; only the proportions matter, and only without baselines.
NET_BYTES_PER_S, IO_OPS_PER_S, MEM_BYTES_PER_CORE = 125e6, 5000.0, 2e9

Sample = tuple[float, float, float, float]
"""Utilization: cpu, net, io, mem."""


class Heard:
    """Messages on their way and those that came; delays are constant, so they come in the order sent."""

    def __init__(self, case: Case) -> None:
        self._tick_s, self._delays = case.tick_s, case.delays
        k = len(case.servers)
        self._ids = tuple(f"server-{index + 1:06d}" for index in range(k))
        self._baseline = np.array([np.nan if s.baseline is None else s.baseline for s in case.servers])
        self._capacity = np.array([_capacity(server) for server in case.servers])
        self._samples: deque[tuple[float, float, int, Sample]] = deque()
        self._reports: deque[tuple[float, int, Report]] = deque()
        self._held: dict[int, tuple[float, Report]] = {}
        self.cpu = np.full(k, np.nan)

    def sample(self, now_s: float, server: int, sample: Sample) -> None:
        """An agent sends a sample of the window that ends now."""
        self._samples.append((now_s + self._delays.sample_s, now_s, server, sample))

    def report(self, balancer: int, report: Report) -> None:
        """A balancer sends its report of the window that ends now."""
        self._reports.append((report.ended_s + self._delays.report_s, balancer, report))

    def snapshot(self, now_s: float) -> Snapshot:
        """Return what the law is told at the tick that is now; `cpu` then has the newest samples' CPU."""
        k = len(self._ids)
        utilization, ages = np.full((k, 4), np.nan), np.zeros(k, dtype=np.int64)
        while self._samples and self._samples[0][0] <= now_s:
            _, ended_s, server, sample = self._samples.popleft()
            utilization[server] = sample
            self.cpu[server] = sample[0]
            ages[server] = self._age(now_s - ended_s)
        current = self._current(now_s)
        completed, failed, in_flight, latency_s = _summed(current, k)
        ended_s = max((report.ended_s for report in current), default=now_s)
        return Snapshot(
            t_s=now_s,
            tick_s=self._tick_s,
            ids=self._ids,
            utilization=utilization,
            sample_age_ticks=ages,
            capacity=self._capacity,
            baseline=self._baseline,
            completed=completed,
            failed=failed,
            in_flight=in_flight,
            latency_s=latency_s,
            leaving=np.zeros(k, dtype=np.bool_),
            report_age_ticks=self._age(now_s - ended_s),
        )

    def _current(self, now_s: float) -> list[Report]:
        came = False
        while self._reports and self._reports[0][0] <= now_s:
            _, index, report = self._reports.popleft()
            self._held[index] = (now_s, report)
            came = True
        oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * self._tick_s
        return [report for came_s, report in self._held.values() if came_s >= oldest_s] if came else []

    def _age(self, late_s: float) -> int:
        """Return whole ticks; a window that ended within the last tick is of age 0."""
        # A window that ended a tick ago to the last bit is a tick old.
        return int(late_s / self._tick_s + 1e-9) if self._delays.ages_known else 0


def _capacity(server: Server) -> tuple[float, float, float, float]:
    cores = float(server.cores)
    return (cores, NET_BYTES_PER_S, IO_OPS_PER_S * server.io_channels, MEM_BYTES_PER_CORE * cores)


def _summed(reports: list[Report], k: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return completed, failed, in flight and the mean latency of all reports; NaN where nothing is known."""
    if not reports:
        return np.full(k, np.nan), np.zeros(k), np.zeros(k), np.full(k, np.nan)
    completed = np.sum([report.completed for report in reports], axis=0)
    failed = np.sum([report.failed for report in reports], axis=0)
    in_flight = np.sum([report.in_flight for report in reports], axis=0)
    busy_s = np.sum([report.latency_s for report in reports], axis=0)
    latency_s = np.divide(busy_s, completed, out=np.full(k, np.nan), where=completed > 0)
    return completed, failed, in_flight, latency_s
