"""Prequal, for comparison: probes of servers' requests in flight and latency, and the hot-cold rule.

Wydrowski et al., *Load is not what you should balance: Introducing Prequal* (NSDI 2024), section 4. Pure but
for the generators passed in. With n servers, and the paper's constants:

probes   each query sends r = 3, to different random servers. A server answers with its requests in flight
         (RIF) from all load balancers, and the median of its recent latencies at about that RIF on arrival
pool     the newest answer of a server, of at most m = 16 servers, for at most 1 s. Each query removes
         r_remove = 1, by turns the oldest and the worst. An answer may be used b times (fractions by chance):

             b = max(1, (1 + d) / ((1 - m/n) r - r_remove))        d = 1

         If the denominator is not above 0, new answers replace those of the same servers (n <= 24), and uses
         do not count. A load balancer adds one to the RIF of an answer that it used
pick     hot: RIF at or above its 0.84 quantile over the recent answers. The choice is the cold answer of the
         least latency, or the least RIF if all are hot; the worst is the opposite. With fewer than two
         answers, the choice is a random server

Simplified: a probe takes no time, because the network takes none in the model. "Recent" and "about" are the
constants here. There is no guard against servers that fail fast. There are no weights, as in Prequal.
"""

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import ceil, inf
from random import Random
from statistics import median

PROBES, POOL, REMOVED, DELTA, AGE_S, Q_RIF = 3, 16, 1, 1.0, 1.0, 0.84

# "About" is a power of two: 0, 1, 2..3, 4..7; "recent" is a number of latencies there, and of answers in the
# quantile.
LATENCIES, ANSWERS = 16, 128

# A latency counts for at most this long: a server without queries because it was slow is tried again.
RECENT_S = 10.0


class ProbedServers:
    """The state that the servers of one run report to the probes of all load balancers."""

    def __init__(self, servers: int) -> None:
        self.balancers = 0
        self.in_flight = [0] * servers
        self._arrived: dict[tuple[int, float], int] = {}
        self._latencies: list[dict[int, deque[tuple[float, float]]]] = [{} for _ in range(servers)]

    def arrive(self, server: int, now_s: float) -> None:
        """Record a query's arrival."""
        # Two queries of one moment would share an entry; they arrive at about the same RIF.
        self._arrived[server, now_s] = self.in_flight[server]
        self.in_flight[server] += 1

    def leave(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        """Record the end of a query."""
        self.in_flight[server] -= 1
        level = self._arrived.pop((server, sent_s), self.in_flight[server]).bit_length()
        if ok:
            latencies = self._latencies[server].setdefault(level, deque(maxlen=LATENCIES))
            latencies.append((now_s, now_s - sent_s))

    def latency_s(self, server: int, now_s: float) -> float:
        """Return the latency at the present RIF, or at the nearest known level; 0 if none is known."""
        own, levels = self.in_flight[server].bit_length(), self._latencies[server]
        for level in sorted(levels, key=lambda level: abs(level - own)):
            latencies = levels[level]
            while latencies and latencies[0][0] < now_s - RECENT_S:
                latencies.popleft()
            if latencies:
                return median(latency_s for _, latency_s in latencies)
        return 0.0


@dataclass(slots=True)
class Answer:
    """A probe's answer in the pool; `uses` is the number of uses left."""

    server: int
    at_s: float
    rif: int
    latency_s: float
    uses: float = inf


def hot_cold(answer: Answer, hot_from: float) -> tuple[bool, float, float]:
    """Rank answers: the cold ones by latency, then the hot ones by RIF."""
    hot = answer.rif >= hot_from
    return (True, answer.rif, answer.latency_s) if hot else (False, answer.latency_s, answer.rif)


def reuse_budget(servers: int) -> float:
    """Return b, the number of times that an answer may be used."""
    gained = (1.0 - POOL / servers) * PROBES - REMOVED
    return max(1.0, (1.0 + DELTA) / gained) if gained > 0 else inf


def quantile(values: Collection[int], part: float) -> float:
    """Return the least value with at least this part of the values at or below it; infinite for none."""
    return sorted(values)[ceil(part * len(values)) - 1] if values else inf


class Prequal:
    """One load balancer's pool. It picks by the least `rank` and removes the largest."""

    rank = staticmethod(hot_cold)

    def __init__(self, random: Random, servers: ProbedServers) -> None:
        self._random, self._servers = random, servers
        servers.balancers += 1
        self._budget = reuse_budget(len(servers.in_flight))
        self._present: Sequence[int] = range(len(servers.in_flight))
        # By server, from the oldest to the newest.
        self._pool: dict[int, Answer] = {}
        self._rifs: deque[int] = deque(maxlen=ANSWERS)
        self._oldest_next = True

    def update(self, weights: Sequence[int]) -> None:
        """Ignore the weights, except for servers out of service."""
        self._present = [server for server, weight in enumerate(weights) if weight]
        self._pool = {server: answer for server, answer in self._pool.items() if weights[server]}

    def pick(self, now_s: float) -> int:
        pool, hot_from = self._pool, quantile(self._rifs, Q_RIF)
        while pool and next(iter(pool.values())).at_s < now_s - AGE_S:
            del pool[next(iter(pool))]
        if len(pool) < 2:
            server = self._random.choice(self._present)
        else:
            used = min(pool.values(), key=lambda answer: self.rank(answer, hot_from))
            server = used.server
            used.rif += 1
            used.uses -= 1
            if used.uses < 1:
                del pool[server]
        self._remove(hot_from)
        self._servers.arrive(server, now_s)
        self._probe(now_s)
        return server

    def _remove(self, hot_from: float) -> None:
        pool = self._pool
        for _ in range(min(REMOVED, len(pool))):
            oldest, worst = (
                next(iter(pool.values())),
                max(pool.values(), key=lambda a: self.rank(a, hot_from)),
            )
            del pool[(oldest if self._oldest_next else worst).server]
            self._oldest_next = not self._oldest_next

    def _probe(self, now_s: float) -> None:
        pool, servers = self._pool, self._servers
        for server in self._random.sample(self._present, min(PROBES, len(self._present))):
            rif = servers.in_flight[server]
            self._rifs.append(rif)
            uses = self._budget if self._budget == inf else int(self._budget + self._random.random())
            pool.pop(server, None)  # the newest is the last
            pool[server] = Answer(server, now_s, rif, servers.latency_s(server, now_s), uses)
            if len(pool) > POOL:
                del pool[next(iter(pool))]

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        self._servers.leave(server, sent_s, now_s, ok)


# Section 5.2 weighs latency and RIF alike, one RIF being a query's median time of 75 ms.
RIF_S = 0.075

# Interval at which a load balancer polls all servers.
POLL_S = 0.5


class Linear(Prequal):
    """Prequal's pool, by the sum of latency and RIF."""

    def rank(self, answer: Answer, _hot_from: float) -> tuple[bool, float, float]:
        return (False, answer.latency_s + RIF_S * answer.rif, 0.0)


class C3(Prequal):
    """Prequal's pool, by C3's score (Suresh et al., NSDI 2015) with the latency for both of its times: L q^3.

    q = 1 + n own + RIF. With n load balancers, each assumes that the others have as many in flight as itself.
    """

    def __init__(self, random: Random, servers: ProbedServers) -> None:
        super().__init__(random, servers)
        self._own = [0] * len(servers.in_flight)

    def rank(self, answer: Answer, _hot_from: float) -> tuple[bool, float, float]:
        waiting = 1 + self._servers.balancers * self._own[answer.server] + answer.rif
        return (False, answer.latency_s * waiting**3, 0.0)

    def pick(self, now_s: float) -> int:
        server = super().pick(now_s)
        self._own[server] += 1
        return server

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        self._own[server] -= 1
        super().answered(server, sent_s, now_s, ok)


class Yarp(Prequal):
    """The lower polled RIF of two random servers."""

    def __init__(self, random: Random, servers: ProbedServers) -> None:
        super().__init__(random, servers)
        self._polled, self._poll_at_s = list(servers.in_flight), random.random() * POLL_S

    def pick(self, now_s: float) -> int:
        if now_s >= self._poll_at_s:
            self._polled, self._poll_at_s = self._servers.in_flight.copy(), now_s + POLL_S
        drawn = self._random.sample(self._present, min(2, len(self._present)))
        server = min(drawn, key=self._polled.__getitem__)
        self._servers.arrive(server, now_s)
        return server
