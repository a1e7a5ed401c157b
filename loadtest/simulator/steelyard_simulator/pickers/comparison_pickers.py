"""Comparison pickers: round robins, random, least request, least connections, least time, Peak EWMA.

Pure but for the generators passed in. Round robins and random know only weights.

wrr        nginx's smooth order, from the front. At each pick every current weight grows by the server's
           weight; the largest is chosen and gives back the sum of all (nginx, ngx_http_upstream_get_peer).
           O(servers)
edf        Envoy's and gRPC's weighted round robin: the earliest deadline; a server's next one is 1 / weight
           later, and its first one at a random point of that. O(log servers) a pick
random     each server with probability weight / total
lr         Envoy's documentation ("Supported load balancers: weighted least request"). Equal weights: two
           random servers, the one with fewer active requests, the first on a tie. Unequal weights: an
           earliest-deadline schedule; a server's next deadline = its last one + (active + 1) / weight
leastconn  nginx's least_conn: the least active / weight of all servers; among ties, its smooth round robin
           over those (ngx_http_upstream_get_least_conn_peer). O(servers) a pick
leasttime  nginx 1.31's `least_time last_byte inflight`: the least  T (active + 1) / weight  of all, ties as
           in leastconn. T is the response time, or the age of the requests in flight if that is more. It is
           averaged (a twentieth of the newest), rounded up to a multiple of 20 ms, at most 5 s, and halved
           for each 11 s without a request (ngx_http_upstream_least_time_eta). A failed answer counts like the
           others: nginx leaves out only what proxy_next_upstream lists, by default no HTTP status
peakewma   the lower cost of two, drawn by weight. Rules from Finagle's documentation and its PeakEwma class:

    peak    P = latency if that is more, otherwise P f + latency (1 - f)     f = e^(-t/10 s)
    cost    P (pending + 1);  nothing known and something pending: a penalty above any known cost
"""

from bisect import bisect_right
from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate
from math import exp
from random import Random


class ComparisonPicker:
    """Common state: the weights, the serving servers, and the requests in flight at each server."""

    def __init__(self, servers: int, random: Random) -> None:
        self._random = random
        self._weights: list[int] = []
        self._served: list[int] = []
        self._active = [0] * servers

    def update(self, weights: Sequence[int]) -> None:
        """Take a new weight table; an identical one changes nothing."""
        weights = list(weights)
        if weights != self._weights:
            self._weights = weights
            self._served = [server for server, weight in enumerate(weights) if weight]
            self._begin()

    def pick(self, now_s: float) -> int:
        """Choose a server; one more request is in flight there."""
        server = self._choose(now_s)
        self._active[server] += 1
        return server

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:  # noqa: ARG002 - a picker's
        """Count a request that is no longer in flight."""
        self._active[server] -= 1

    def _begin(self) -> None:
        """Begin again with other weights."""

    def _choose(self, now_s: float) -> int:
        raise NotImplementedError


class RoundRobin(ComparisonPicker):
    """Smooth weighted round robin."""

    def _begin(self) -> None:
        self._current = [0] * len(self._weights)

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        return self._turn(range(len(self._weights)))

    def _turn(self, among: Sequence[int]) -> int:
        for server in among:
            self._current[server] += self._weights[server]
        best = max(among, key=self._current.__getitem__)
        self._current[best] -= sum(self._weights[server] for server in among)
        return best


class RandomChoice(ComparisonPicker):
    """Weighted random."""

    def _begin(self) -> None:
        self._ends = list(accumulate(self._weights))

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        return bisect_right(self._ends, self._random.random() * self._ends[-1])


class EarliestDeadline(ComparisonPicker):
    """Weighted round robin by a schedule."""

    def _begin(self) -> None:
        self._schedule = [(self._random.random() / self._weights[server], server) for server in self._served]
        heapify(self._schedule)

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        deadline, server = self._schedule[0]
        heapreplace(self._schedule, (deadline + 1.0 / self._weights[server], server))
        return server


class LeastRequest(ComparisonPicker):
    """Power of two choices; with unequal weights, the schedule."""

    def _begin(self) -> None:
        self._equal = len({self._weights[server] for server in self._served}) == 1
        # As if each had last been served at a random point of its period; otherwise all would begin at once.
        self._schedule = [(self._random.random() / self._weights[server], server) for server in self._served]
        heapify(self._schedule)

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        active = self._active
        if self._equal:
            one, other = (self._served[int(self._random.random() * len(self._served))] for _ in range(2))
            return other if active[other] < active[one] else one
        deadline, server = self._schedule[0]
        period = (active[server] + 1) / self._weights[server]
        heapreplace(self._schedule, (deadline + period, server))
        return server


class LeastConn(RoundRobin):
    """The least active / weight of all; smooth weighted round robin among ties."""

    def _choose(self, now_s: float) -> int:
        loads = [self._load(server, now_s) / self._weights[server] for server in self._served]
        least = min(loads)
        return self._turn([server for server, load in zip(self._served, loads, strict=True) if load == least])

    def _load(self, server: int, now_s: float) -> float:  # noqa: ARG002 - least time's
        return self._active[server]


FAIL_TIMEOUT_S = 10
CLOSE_MS, SLOWEST_MS = 20, 5000
NEWEST = 0.05


class LeastTime(LeastConn):
    """The least time until a server is done with its requests in flight."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self._response_ms, self._inflight_ms = [0] * servers, [0] * servers
        # Total age of the requests in flight, at its last change.
        self._ages_ms, self._changed_ms = [0] * servers, [0] * servers
        self._checked_s = [0] * servers

    def pick(self, now_s: float) -> int:
        best, now_ms = super().pick(now_s), int(now_s * 1000)
        self._ages_ms[best] += (now_ms - self._changed_ms[best]) * (self._active[best] - 1)
        self._changed_ms[best] = now_ms
        if int(now_s) - self._checked_s[best] > FAIL_TIMEOUT_S:
            self._checked_s[best] = int(now_s)
        return best

    def _load(self, server: int, now_s: float) -> float:
        active, response_ms = self._active[server], self._response_ms[server]
        idle_s = int(now_s) - self._checked_s[server]
        if idle_s > FAIL_TIMEOUT_S:
            response_ms >>= idle_s // (FAIL_TIMEOUT_S + 1)
        if active:
            age_ms = self._ages_ms[server] // active + int(now_s * 1000) - self._changed_ms[server]
            self._inflight_ms[server] = _averaged(self._inflight_ms[server], age_ms)
            response_ms = max(response_ms, self._inflight_ms[server])
        if response_ms > SLOWEST_MS:
            return SLOWEST_MS * (active + 1)
        return (response_ms + CLOSE_MS - response_ms % CLOSE_MS) * (active + 1)

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        now_ms, took_ms = int(now_s * 1000), int(now_s * 1000) - int(sent_s * 1000)
        since_ms = now_ms - self._changed_ms[server]
        if self._active[server] == 1:
            self._ages_ms[server] = 0
        else:
            self._ages_ms[server] += since_ms * self._active[server] - took_ms
            self._changed_ms[server] = now_ms
        super().answered(server, sent_s, now_s, ok)
        self._response_ms[server] = _averaged(self._response_ms[server], took_ms)


def _averaged(before_ms: int, now_ms: int) -> int:
    return int(0.5 + NEWEST * now_ms + (1.0 - NEWEST) * before_ms) if before_ms else now_ms


DECAY_S = 10.0

# Above any cost a latency can cause; Finagle's penalty means "as good as never".
PENALTY_S = 1e6

# Draws of a second server before the first stands alone; with two servers, one time in a thousand.
DRAWS = 10


class PeakEwma(RandomChoice):
    """The lower cost of two."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self._peak_s, self._stamp_s = [0.0] * servers, [0.0] * servers

    def _choose(self, now_s: float) -> int:
        server = other = super()._choose(now_s)
        for _ in range(DRAWS):
            other = super()._choose(now_s)
            if other != server:
                break
        return other if self._cost_s(other, now_s) < self._cost_s(server, now_s) else server

    def _cost_s(self, server: int, now_s: float) -> float:
        peak_s, pending = self._peak_s[server], self._active[server]
        if peak_s == 0.0:
            return PENALTY_S + pending if pending else 0.0
        return peak_s * exp((self._stamp_s[server] - now_s) / DECAY_S) * (pending + 1)

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        super().answered(server, sent_s, now_s, ok)
        latency_s = now_s - sent_s
        fading = exp((self._stamp_s[server] - now_s) / DECAY_S)
        faded_s = self._peak_s[server] * fading
        self._peak_s[server] = latency_s if latency_s > faded_s else faded_s + latency_s * (1.0 - fading)
        self._stamp_s[server] = now_s
