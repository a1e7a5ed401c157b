"""Traefik's `leasttime`, for comparison. Pure.

Source: Traefik's documentation ("Service Load Balancer: leasttime", since 3.6) and its balancer
(traefik/traefik, pkg/server/service/loadbalancer/leasttime/leasttime.go).

    score = T (1 + in flight) / weight      the least of all servers
    T       mean of the last 100 times to the first byte, in whole milliseconds; 0 before the first
    ties    the earliest deadline; the chosen server's next one is 1/weight later

A failed request is an answer like the others. So a server without an answer is always first, and a server
that fails within a millisecond keeps T = 0. T does not age: a server whose only answer was slow may never be
asked again. The model has no first byte, so the whole answer's time counts.
"""

from collections import deque
from random import Random

from steelyard_simulator.pickers.comparison_pickers import ComparisonPicker

SAMPLES = 100


class TraefikLeastTime(ComparisonPicker):
    """The least mean time, times the requests in flight with this one."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self._times_ms: list[deque[int]] = [deque(maxlen=SAMPLES) for _ in range(servers)]
        self._sums_ms, self._means_ms = [0] * servers, [0.0] * servers

    def _begin(self) -> None:
        # Each server is added with a deadline of 1/weight after the one before it.
        self._deadlines, deadline = [0.0] * len(self._weights), 0.0
        for server in self._served:
            deadline += 1.0 / self._weights[server]
            self._deadlines[server] = deadline

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        means_ms, active, weights = self._means_ms, self._active, self._weights
        scores = [means_ms[server] * (1 + active[server]) / weights[server] for server in self._served]
        least = min(scores)
        tied = [server for server, score in zip(self._served, scores, strict=True) if score == least]
        if len(tied) == 1:
            return tied[0]
        best = min(tied, key=self._deadlines.__getitem__)
        self._deadlines[best] += 1.0 / weights[best]
        return best

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        super().answered(server, sent_s, now_s, ok)
        times_ms, took_ms = self._times_ms[server], int((now_s - sent_s) * 1000)
        self._sums_ms[server] += took_ms - (times_ms[0] if len(times_ms) == SAMPLES else 0)
        times_ms.append(took_ms)
        self._means_ms[server] = self._sums_ms[server] / len(times_ms)
