"""The base of a run: the event loop, random durations, and rates that change in steps.

Pure but for the generators passed in. The loop is a heap of (time, order, action, argument). It serves nine
times the requests a second of SimPy 4.1 on the same M/M/4 queue. With the whole model around it, it still
serves 2.4 to 3.2 times as many (docs/decisions/0012-the-simulator.md).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from math import exp, inf, log
from random import Random
from statistics import NormalDist
from typing import Any

from steelyard_simulator.model import Draw

Action = Callable[[float, Any], object]


class Engine:
    """Simulated time. Two events at the same moment happen in the order in which they were scheduled."""

    __slots__ = ("_heap", "_order", "events")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action, Any]] = []
        self._order = 0
        self.events = 0

    def at(self, when_s: float, action: Action, argument: Any = None) -> None:  # noqa: ANN401 - the action's own
        """Call `action(when_s, argument)` at that time, which must not be in the past."""
        self._order += 1
        heappush(self._heap, (when_s, self._order, action, argument))

    def run(self, until_s: float) -> None:
        """Run events in order, up to and including `until_s`; later ones stay."""
        heap, taken = self._heap, 0
        while heap and heap[0][0] <= until_s:
            now_s, _, action, argument = heappop(heap)
            action(now_s, argument)
            taken += 1
        self.events += taken


class Rate:
    """A rate per second, piecewise constant and known in advance: a server's speed, or arrivals."""

    __slots__ = ("_from_s", "_rates", "constant")

    def __init__(self, changes: Iterable[tuple[float, float]]) -> None:
        """Take pairs of (start, rate) in order; the first starts at 0."""
        ordered = sorted(changes)
        self._from_s = [from_s for from_s, _ in ordered]
        self._rates = [rate for _, rate in ordered]
        self.constant = self._rates[0] if len(self._rates) == 1 else None

    def end(self, start_s: float, amount: float) -> float:
        """Return when this amount is done, started now; infinite if the rate ends at 0."""
        if self.constant:
            return start_s + amount / self.constant
        at = bisect_right(self._from_s, start_s) - 1
        while at + 1 < len(self._from_s):
            room = (self._from_s[at + 1] - start_s) * self._rates[at]
            if amount <= room:
                break
            amount -= room
            at += 1
            start_s = self._from_s[at]
        return start_s + amount / self._rates[at] if self._rates[at] else inf


def sampler(draw: Draw, random: Random) -> Callable[[], float]:
    """Return a function that draws durations in seconds."""
    mean_s = draw.mean_s
    if draw.shape == "constant" or mean_s == 0:
        return lambda: mean_s
    uniform = random.random
    if draw.shape == "exponential":
        return lambda: -mean_s * log(1.0 - uniform())
    if draw.shape == "normal":
        # The mean of max(0, m + m cv Z) is m (Phi(1/cv) + cv phi(1/cv)).
        whole = NormalDist().cdf(1 / draw.cv) + draw.cv * NormalDist().pdf(1 / draw.cv)
        return lambda: max(0.0, random.gauss(mean_s / whole, mean_s / whole * draw.cv))
    # ln X is normal with variance ln(1 + cv^2); the mean of X is then exp(mu + variance / 2).
    variance = log(1.0 + draw.cv**2)
    mu, sigma, normal = log(mean_s) - variance / 2, variance**0.5, random.gauss
    return lambda: exp(normal(mu, sigma))


def stream(seed: int, purpose: str) -> Random:
    """Return a generator for one purpose, so that an additional draw for one does not change the others."""
    return Random(f"{seed}/{purpose}")
