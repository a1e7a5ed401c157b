"""Envoy's two ways to prefer near servers, for comparison: a random zone by its part, then a server in it.

Pure but for the generators passed in. From Envoy's documentation ("Zone aware routing", "Load-aware locality
load balancing"), with its defaults. The given picker chooses among the servers of a zone.

envoy       h, o: a zone's part of the servers, and of the load balancers. The local zone gets min(1, h/o);
            the rest goes to the others by max(0, h - o)
load-aware  uses the servers' utilization, averaged over a zone each second and smoothed over 5 s. All is
            local while local <= mean of the others + 0.1; otherwise zones share by servers (1 - utilization).
            At least 3 % go to the others, by their number. (In Envoy each load balancer only knows the
            answers to its own requests; here all know all, so the model is kinder.)
"""

from collections.abc import Callable, Sequence
from math import exp
from random import Random
from typing import Literal

import numpy as np

from steelyard_simulator.engine import stream
from steelyard_simulator.model import Case, Floats, Ints
from steelyard_simulator.pickers import Picker

EnvoyRule = Literal["envoy", "load-aware"]

PERIOD_S, SMOOTHING_S, THRESHOLD, PROBED = 1.0, 5.0, 0.1, 0.03


def maker(make: Callable[[int], Picker], case: Case, seed: int) -> Callable[[int], Picker]:
    """Return a function that makes the load balancer with a given index; `make` makes a zone's picker."""
    of_servers = np.array([server.zone for server in case.servers])
    zones = range(int(of_servers.max()) + 1)
    origin = np.bincount(case.zones, minlength=len(zones)) / len(case.zones)
    return lambda index: ByZone(
        case.zones[index], of_servers, origin, [make(index) for _ in zones], stream(seed, f"zone {index}"),
        is_load_aware=case.balancing.zoned == "load-aware",
    )  # fmt: skip


class ByZone:
    """One load balancer's choice of a zone, and the pickers of the zones."""

    def __init__(
        self, zone: int, of_servers: Ints, origin: Floats, pickers: Sequence[Picker], random: Random, *,
        is_load_aware: bool,
    ) -> None:  # fmt: skip
        self._local, self._of, self._origin, self._pickers = zone, of_servers, origin, pickers
        self._random, self._is_load_aware = random.random, is_load_aware
        self._hosts, self._ends, self._due_s = np.zeros(len(pickers), dtype=np.int64), [1.0], 0.0
        self._smoothed: Floats | None = None
        self.utilization: Callable[[], Floats] = lambda: np.zeros(len(of_servers))

    def update(self, weights: Sequence[int]) -> None:
        """Take the serving servers: their number in each zone."""
        given = np.array(weights)
        self._serving = given > 0
        self._hosts = np.bincount(self._of[self._serving], minlength=len(self._pickers))
        for zone, picker in enumerate(self._pickers):
            if self._hosts[zone]:
                picker.update(np.where(self._of == zone, given, 0).tolist())
        self._ends = np.cumsum(self._by_load() if self._is_load_aware else self._by_hosts()).tolist()

    def pick(self, now_s: float) -> int:
        """Choose a zone, and a server in it."""
        if self._is_load_aware and now_s >= self._due_s:
            self._due_s = now_s + PERIOD_S
            self._ends = np.cumsum(self._by_load()).tolist()
        drawn = self._random() * self._ends[-1]
        return self._pickers[next(zone for zone, end in enumerate(self._ends) if drawn < end)].pick(now_s)

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        """Pass an answer to the picker that chose the server."""
        self._pickers[self._of[server]].answered(server, sent_s, now_s, ok)

    def _by_hosts(self) -> Floats:
        hosts, local = self._hosts / self._hosts.sum(), self._local
        near = min(1.0, hosts[local] / self._origin[local])
        residual = np.maximum(hosts - self._origin, 0.0)
        parts: Floats = (1.0 - near) * residual / max(residual.sum(), 1e-9)
        parts[local] = near
        return parts

    def _by_load(self) -> Floats:
        local, hosts = self._local, self._hosts
        used = np.where(self._serving, np.nan_to_num(self.utilization()), 0.0)
        raw: Floats = np.bincount(self._of, weights=used, minlength=len(hosts)) / np.maximum(hosts, 1)
        before = raw if self._smoothed is None else self._smoothed
        self._smoothed = now = raw + exp(-PERIOD_S / SMOOTHING_S) * (before - raw)
        weights: Floats = np.maximum(1.0 - now, 0.0) * hosts
        if weights.sum() == 0:
            return hosts.astype(float)
        remote = np.where(np.arange(len(hosts)) == local, 0, hosts)
        if now[local] <= now @ remote / remote.sum() + THRESHOLD:
            weights = np.where(remote == 0, weights.sum(), 0.0)
        weights /= weights.sum()
        taken = min(max(PROBED - (1.0 - weights[local]), 0.0), weights[local])
        weights[local] -= taken
        weights += taken * remote / remote.sum()
        return weights
