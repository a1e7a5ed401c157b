"""Linkerd's peak EWMA with penalties for failures, for comparison. Pure but for the generator passed in.

Source: linkerd2-proxy (linkerd/load-biaser/src/lib.rs, linkerd/ewma/src/lib.rs), with their default values.
The lower load of two random servers:

    load     max(P (in flight + 1), penalty)
    P        a peak EWMA of the round trip, 1 s before the first answer
    penalty  a peak EWMA of 5 s for each failed answer (429, 503, 5xx); 0 before the first
    peak     v if v is more than the value now; otherwise value f + v (1 - f)     f = e^(-t/10 s)
    now      value f: both fade while nothing comes

A failed answer's round trip counts as well. Penalties are off in Linkerd's own default; they are on here,
because they are the subject of the comparison. Retry-After is not modelled. Weights do not count, except
for servers out of service. On a tie, the first of the two is chosen.
"""

from math import exp
from random import Random

from steelyard_simulator.pickers.comparison_pickers import ComparisonPicker

DEFAULT_RTT_S, PENALTY_S, DECAY_S = 1.0, 5.0, 10.0


class PeakAverage:
    """An average that jumps to a peak and fades."""

    __slots__ = ("_at_s", "_value")

    def __init__(self, value: float) -> None:
        self._value, self._at_s = value, 0.0

    def at(self, now_s: float) -> float:
        """Return the value faded until now."""
        return self._value * exp((self._at_s - now_s) / DECAY_S)

    def add(self, value: float, now_s: float) -> None:
        """Take a new value."""
        fading = exp((self._at_s - now_s) / DECAY_S)
        faded = self._value * fading
        self._value = value if value > faded else faded + value * (1.0 - fading)
        self._at_s = now_s


class LinkerdPeakEwma(ComparisonPicker):
    """The lower load of two."""

    def __init__(self, servers: int, random: Random) -> None:
        super().__init__(servers, random)
        self._rtt_s = [PeakAverage(DEFAULT_RTT_S) for _ in range(servers)]
        self._penalty_s = [PeakAverage(0.0) for _ in range(servers)]

    def _choose(self, now_s: float) -> int:
        served, draw = self._served, self._random.random
        if len(served) == 1:
            return served[0]
        first, second = int(draw() * len(served)), int(draw() * (len(served) - 1))
        one, other = served[first], served[second + (second >= first)]
        return other if self.load_s(other, now_s) < self.load_s(one, now_s) else one

    def load_s(self, server: int, now_s: float) -> float:
        """Return a server's load at a time."""
        base_s = self._rtt_s[server].at(now_s) * (self._active[server] + 1)
        return max(base_s, self._penalty_s[server].at(now_s))

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        super().answered(server, sent_s, now_s, ok)
        self._rtt_s[server].add(now_s - sent_s, now_s)
        if not ok:
            self._penalty_s[server].add(PENALTY_S, now_s)
