"""The simulated controller's received messages, and the snapshot that its law gets from them.

Pure. This is `steelyard_controller.tick.snapshot_builder` in columns. That one walks every peer of every
report, and the model has up to 10,000 times 256; a test compares the two. A sample counts as new at the tick
at which it arrived and never again. The reports of all balancers are summed, a late one with its last
figures. The controller judges freshness by arrival, so the law gets no age.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import Snapshot
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.tick.snapshot_builder import LATE_REPORT_TICKS

from steelyard_simulator.model import Case, Floats, Server
from steelyard_simulator.simulated_server import factor_at, is_away

# Usual values of machines with one core; only the proportions matter, and only without baselines.
NET_BYTES_PER_S, IO_OPS_PER_S, MEM_BYTES_PER_CORE = 125e6, 5000.0, 2e9

Sample = tuple[float, float, float, float]
"""Utilization: cpu, net, io, mem."""


class SimulatedInbox:
    """Messages under way and arrived; delays are constant, so messages arrive in the order sent."""

    def __init__(self, case: Case) -> None:
        self._tick_s, self._delays = case.tick_s, case.delays
        k = len(case.servers)
        self._priced = case.balancing.priced
        self._ids = tuple(f"server-{index + 1:06d}" for index in range(k))
        self._baseline = np.array([np.nan if s.baseline is None else s.baseline for s in case.servers])
        pinned = np.array([np.nan if s.pinned is None else s.pinned for s in case.servers])
        self._pinned = law_total(case.balancing.parameters.get("S", 0), k) * pinned
        self._servers = case.servers
        self._capacity = np.array([_capacity(server) for server in case.servers])
        # A server's limit in its next samples.
        self._limited = [
            index for index, server in enumerate(case.servers) if any(s.reported for s in server.steps)
        ]
        self._leaving = [index for index, server in enumerate(case.servers) if server.away]
        self._samples: deque[tuple[float, float, int, Sample]] = deque()
        self._reports: deque[tuple[float, int, Floats]] = deque()
        self._held: dict[int, tuple[float, Floats]] = {}
        self.cpu = np.full(k, np.nan)

    def sample(self, now_s: float, server: int, sample: Sample) -> None:
        """An agent sends a sample of the window that ends now."""
        self._samples.append((now_s + self._delays.sample_s, now_s, server, sample))

    def report(self, now_s: float, balancer: int, counts: Floats) -> None:
        """A balancer sends its report of the window that ends now."""
        self._reports.append((now_s + self._delays.report_s, balancer, counts))

    def snapshot(self, now_s: float) -> Snapshot:
        """Return the law's snapshot at the tick that is now; `cpu` then has the newest samples' CPU."""
        k = len(self._ids)
        utilization = np.full((k, 4), np.nan)
        while self._samples and self._samples[0][0] <= now_s:
            _, ended_s, server, sample = self._samples.popleft()
            if server in self._leaving and is_away(self._servers[server], ended_s):
                continue
            utilization[server] = sample
            self.cpu[server] = sample[0]
            if server in self._limited:
                limited = self._servers[server]
                reported = (step for step in limited.steps if step.reported)
                self._capacity[server, 0] = limited.cores * factor_at(reported, ended_s)
        current = self._current(now_s)
        if current:
            completed, failed, in_flight, busy_s, cost = np.sum(current, axis=0)
            latency_s = busy_s / np.where(completed > 0, completed, np.nan)
        else:
            completed, failed, in_flight, latency_s, cost = np.outer(
                (np.nan, 0, 0, np.nan, np.nan), np.ones(k)
            )
        eligible = np.ones(k, dtype=np.bool_)
        for server in self._leaving:
            eligible[server] = not is_away(self._servers[server], now_s)
        return Snapshot(
            t_s=now_s,
            tick_s=self._tick_s,
            ids=self._ids,
            utilization=utilization,
            sample_age_ticks=np.zeros(k, dtype=np.int64),
            capacity=self._capacity.copy(),
            baseline=self._baseline,
            pinned=self._pinned,
            completed=completed,
            failed=failed,
            in_flight=in_flight,
            latency_s=latency_s,
            leaving=np.zeros(k, dtype=np.bool_),
            eligible=eligible,
            report_age_ticks=0,
            cost=cost if self._priced else np.full(k, np.nan),
        )

    def flows(self, balancers: Sequence[int], zoning: Zoning) -> Floats:
        """Return requests per second from each zone to each; the last index stands for no zone."""
        seen = zoning.none()
        for balancer, (_, counts) in self._held.items():
            np.add.at(seen[balancers[balancer]], zoning.of, (counts[0] + counts[1]) / self._tick_s)
        return seen

    def _current(self, now_s: float) -> list[Floats]:
        came = False
        while self._reports and self._reports[0][0] <= now_s:
            _, index, counts = self._reports.popleft()
            self._held[index] = (now_s, counts)
            came = True
        oldest_s = now_s - (LATE_REPORT_TICKS + 0.5) * self._tick_s
        return [counts for came_s, counts in self._held.values() if came_s >= oldest_s] if came else []


def _capacity(server: Server) -> tuple[float, float, float, float]:
    cores = float(server.cores)
    return (cores, NET_BYTES_PER_S, IO_OPS_PER_S * server.io_channels, MEM_BYTES_PER_CORE * cores)
