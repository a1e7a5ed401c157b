"""Angie's methods by feedback, for comparison: `least_time` (since 1.12) and `feedback` (Angie PRO).

Pure but for the generators passed in. Sources: Angie's documentation ("Load Balancing", "Upstream
Feedback"), and for least_time its module (webserver-llc/angie,
src/http/modules/ngx_http_upstream_least_time_module.c). Both draw one server by chance and do not look at
requests in flight.

average     A = 0.9 A + 0.1 v     v: of the newest answer; the first one counts in full. factor=90, the
            default
least_time  chance ~ max(1/A, 0.01/M)     last_byte. v: response time in whole milliseconds, at least 1.
            M: mean of all known averages; a server without an answer has A = M. Configured weights do not
            count
feedback    chance ~ weight A     v: the number that a server reports with its answer

The operator chooses which number that is. Here it is the documentation's own example, the server's spare
capacity (comparison_loops/spare_capacity.py). The documentation leaves open two cases. A server without an
answer has the mean of the others. A number below 1 counts as 1, because a server with the chance 0 would
never report again.

A failed request is an answer like the others: `proxy_next_upstream` lists no HTTP status by default.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from steelyard_simulator.pickers.comparison_pickers import ComparisonPicker

FACTOR = 0.9
LEAST_PORTION = 0.01


class _ByAverage(ComparisonPicker):
    """Draws by the servers' averages; 0 is no answer yet."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self._averages = [0.0] * servers

    def _average(self, server: int, value: float) -> None:
        before = self._averages[server]
        self._averages[server] = FACTOR * before + (1.0 - FACTOR) * value if before else value

    def _mean(self) -> float:
        known = [self._averages[server] for server in self._served if self._averages[server]]
        return sum(known) / len(known) if known else 1.0

    def _draw(self, chances: list[float]) -> int:
        ends = list(accumulate(chances))
        return self._served[min(bisect_right(ends, self._random.random() * ends[-1]), len(ends) - 1)]


class AngieLeastTime(_ByAverage):
    """By chance, in inverse proportion to the average response time."""

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        mean = self._mean()
        least, averages = LEAST_PORTION / mean, self._averages
        return self._draw([max(1.0 / (averages[server] or mean), least) for server in self._served])

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        super().answered(server, sent_s, now_s, ok)
        self._average(server, max(int(now_s * 1000) - int(sent_s * 1000), 1))


class AngieFeedback(_ByAverage):
    """By chance, in proportion to weight and average reported value."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self.reported: Sequence[float] = [1.0] * servers

    def _choose(self, now_s: float) -> int:  # noqa: ARG002 - a picker's
        mean, averages, weights = self._mean(), self._averages, self._weights
        return self._draw([weights[server] * (averages[server] or mean) for server in self._served])

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        super().answered(server, sent_s, now_s, ok)
        self._average(server, max(self.reported[server], 1.0))
