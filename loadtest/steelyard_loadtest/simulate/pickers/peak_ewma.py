"""Finagle's Peak EWMA over two choices, drawn by weight.

Pure but for the generator passed in. Rules from Finagle's documentation and its PeakEwma class:

    peak    P = latency where that is more, else P f + latency (1 - f)     f = e^(-t/10 s)
    cost    P (pending + 1);  nothing known and something pending: a penalty above any known cost
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import exp
from random import Random

DECAY_S = 10.0

# Above any cost a latency can make; Finagle's stands for "as good as never".
PENALTY_S = 1e6

# Draws of a second server before the first stands alone; with two servers, one time in a thousand.
DRAWS = 10


class PeakEwma:
    """The lower cost of two."""

    __slots__ = ("_ends", "_peak_s", "_pending", "_random", "_stamp_s")
    wants_key = False

    def __init__(self, random: Random) -> None:
        self._random = random
        self._ends: list[int] = []
        self._peak_s: list[float] = []
        self._stamp_s: list[float] = []
        self._pending: list[int] = []

    def update(self, weights: Sequence[int]) -> None:
        self._ends = list(accumulate(weights))
        if len(self._pending) != len(weights):
            self._peak_s, self._stamp_s = [0.0] * len(weights), [0.0] * len(weights)
            self._pending = [0] * len(weights)

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        server = other = self._drawn()
        for _ in range(DRAWS):
            other = self._drawn()
            if other != server:
                break
        if self._cost_s(other, now_s) < self._cost_s(server, now_s):
            server = other
        self._pending[server] += 1
        return server

    def _drawn(self) -> int:
        return bisect_right(self._ends, self._random.random() * self._ends[-1])

    def _cost_s(self, server: int, now_s: float) -> float:
        peak_s, pending = self._peak_s[server], self._pending[server]
        if peak_s == 0.0:
            return PENALTY_S + pending if pending else 0.0
        return peak_s * exp((self._stamp_s[server] - now_s) / DECAY_S) * (pending + 1)

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:  # noqa: ARG002 - a picker's
        self._pending[server] -= 1
        latency_s = now_s - sent_s
        fading = exp((self._stamp_s[server] - now_s) / DECAY_S)
        faded_s = self._peak_s[server] * fading
        self._peak_s[server] = latency_s if latency_s > faded_s else faded_s + latency_s * (1.0 - fading)
        self._stamp_s[server] = now_s
