"""Envoy's least request, by its documentation ("Supported load balancers: weighted least request").

Pure but for the generator passed in. Equal weights: two servers at random, the one with fewer
active requests, the first on a tie. Unequal weights: an earliest-deadline schedule in which

    a server's next deadline = its last one + (active + 1) / weight
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from random import Random


class LeastRequest:
    """Power of two choices; where weights differ, the schedule."""

    __slots__ = ("_active", "_equal", "_random", "_schedule", "_weights")
    wants_key = False

    def __init__(self, random: Random) -> None:
        self._random = random
        self._weights: list[int] = []
        self._active: list[int] = []
        self._schedule: list[tuple[float, int]] = []
        self._equal = True

    def update(self, weights: Sequence[int]) -> None:
        weights = list(weights)
        if weights == self._weights:
            return
        self._active = self._active if len(self._active) == len(weights) else [0] * len(weights)
        self._weights, self._equal = weights, len(set(weights)) == 1
        # As if everyone had been served last at a random point of its period, or all begin at once.
        self._schedule = [(self._random.random() / weight, server) for server, weight in enumerate(weights)]
        heapify(self._schedule)

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        active = self._active
        if self._equal:
            server = int(self._random.random() * len(active))
            other = int(self._random.random() * len(active))
            if active[other] < active[server]:
                server = other
        else:
            deadline, server = self._schedule[0]
            period = (active[server] + 1) / self._weights[server]
            heapreplace(self._schedule, (deadline + period, server))
        active[server] += 1
        return server

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:  # noqa: ARG002 - a picker's
        self._active[server] -= 1
