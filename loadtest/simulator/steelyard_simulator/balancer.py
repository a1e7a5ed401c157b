"""One load balancer: its picker, and the counts for its traffic reports. Pure."""

from collections.abc import Callable, Sequence

import numpy as np

from steelyard_simulator.model import Floats
from steelyard_simulator.pickers import Picker


class Request:
    """A request: when and through which load balancer it was sent, its server, its stage and its outcome.

    `cost` is its seconds of CPU, if the load balancers know it in advance.
    """

    __slots__ = ("balancer", "cost", "ok", "sent_s", "server", "stage")

    def __init__(self, sent_s: float, balancer: "Balancer") -> None:
        self.sent_s, self.balancer = sent_s, balancer
        self.server, self.stage, self.ok = -1, 0, True
        self.cost: float | None = None


class Balancer:
    """Sends requests to the servers that its picker chooses, and counts their outcomes."""

    __slots__ = (
        "_completed", "_cost", "_failed", "_held_s", "_in_flight", "_latency_s", "away", "index", "picker",
        "weights", "zone",
    )  # fmt: skip

    def __init__(self, index: int, picker: Picker, servers: int, zone: int = 0) -> None:
        self.index, self.picker, self.zone = index, picker, zone
        self._in_flight = [0] * servers
        self._held_s: list[list[float]] = [[] for _ in range(servers)]
        self.weights: Sequence[int] = [1] * servers
        self.away: frozenset[int] = frozenset()
        self._clear(servers)

    def _clear(self, servers: int) -> None:
        self._completed, self._failed, self._latency_s = [0] * servers, [0] * servers, [0.0] * servers
        self._cost = [0.0] * servers

    def take(self, weights: Sequence[int]) -> None:
        """Take a new weight table; the picker does not see servers that are away."""
        self.weights = weights
        if self.away:
            weights = [0 if server in self.away else weight for server, weight in enumerate(weights)]
        self.picker.update(weights)

    def pick(self, now_s: float, request: Request) -> int:
        """Choose the request's server."""
        pick: Callable[..., int] = self.picker.pick
        server = pick(now_s) if request.cost is None else pick(now_s, request.cost)
        request.server = server
        self._in_flight[server] += 1
        return server

    def answered(self, now_s: float, request: Request, held: bool) -> None:
        """Count an answer, and pass it to the picker unless the connection is `held` open."""
        server = request.server
        if request.ok:
            self._completed[server] += 1
            self._cost[server] += request.cost or 0.0
            self._latency_s[server] += now_s - request.sent_s
        else:
            self._failed[server] += 1
        if held:
            self._held_s[server].append(now_s - request.sent_s)
        else:
            self._in_flight[server] -= 1
            self.picker.answered(server, request.sent_s, now_s, request.ok)

    def close(self, now_s: float) -> None:
        """Close the open connections of servers that are away."""
        for server in self.away:
            for latency_s in self._held_s[server]:
                self._in_flight[server] -= 1
                self.picker.answered(server, now_s - latency_s, now_s, True)
            self._held_s[server].clear()

    def report(self) -> Floats:
        """Return the counts of each server in the window that ends now, and begin the next one.

        5 x k: completed, failed, in flight; and for completed requests the sums of latency in seconds and of
        cost.
        """
        seen = [self._completed, self._failed, self._in_flight, self._latency_s, self._cost]
        counts = np.array(seen, dtype=float)
        self._clear(len(self._in_flight))
        return counts
