"""How fast a server is over time: piecewise constant, known in advance.

Pure. A neighbour's share and a capacity step are both a change of speed; work that runs while the
speed changes is integrated across the change, so a job's end is known when it starts.
"""

from bisect import bisect_right
from itertools import pairwise

from steelyard_loadtest.simulate.model import Server

# A server that a neighbour takes all of would never end a job; a thousandth is as good as nothing.
SLOWEST_FACTOR = 1e-3


class Speed:
    """Work done per second and core, by time."""

    __slots__ = ("_from_s", "_speeds", "constant")

    def __init__(self, server: Server) -> None:
        edges = {0.0}
        edges.update(step.at_s for step in server.steps)
        for background in server.background:
            edges.update((background.start_s, background.end_s))
        self._from_s = sorted(edge for edge in edges if edge >= 0)
        self._speeds = [_speed_at(server, edge) for edge in self._from_s]
        self.constant = self._speeds[0] if len(self._speeds) == 1 else None

    def at(self, when_s: float) -> float:
        """Return the speed at a time."""
        return self._speeds[bisect_right(self._from_s, when_s) - 1]

    def end(self, start_s: float, work_s: float) -> float:
        """Return when work that starts now, and takes `work_s` at speed 1, is done."""
        if self.constant is not None:
            return start_s + work_s / self.constant
        at = bisect_right(self._from_s, start_s) - 1
        while at + 1 < len(self._from_s):
            room_s = (self._from_s[at + 1] - start_s) * self._speeds[at]
            if work_s <= room_s:
                break
            work_s -= room_s
            at += 1
            start_s = self._from_s[at]
        return start_s + work_s / self._speeds[at]

    def work(self, start_s: float, end_s: float) -> float:
        """Return the work, in seconds at speed 1, that fits between two times."""
        if self.constant is not None:
            return (end_s - start_s) * self.constant
        inner = [edge for edge in self._from_s if start_s < edge < end_s]
        return sum((b - a) * self.at(a) for a, b in pairwise([start_s, *inner, end_s]))


def idle_utilization(server: Server, start_s: float, end_s: float) -> float:
    """Return how busy the neighbours make an idle core look, averaged over a window: 0..1."""
    if not server.background or end_s <= start_s:
        return 0.0
    busy_s = sum(
        background.idle_utilization
        * max(0.0, min(end_s, background.end_s) - max(start_s, background.start_s))
        for background in server.background
    )
    return min(1.0, busy_s / (end_s - start_s))


def _speed_at(server: Server, when_s: float) -> float:
    factor = 1.0
    for step in sorted(server.steps, key=lambda step: step.at_s):
        if step.at_s <= when_s:
            factor = step.factor
    taken = sum(b.share for b in server.background if b.start_s <= when_s < b.end_s)
    return server.speed * max(factor * (1.0 - taken), SLOWEST_FACTOR)
