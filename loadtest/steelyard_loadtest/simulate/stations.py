"""Where a request spends its time at a server: a queue for cores, shared cores, or a delay.

Pure. A station takes a request and its work, and calls `leave(now_s, request)` when that is done.

    Queue     first come, first served by c cores
    Sharing   processor sharing: n requests get min(1, c/n) of a core each
    Delay     nothing is busy, nobody waits
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

from steelyard_loadtest.simulate.engine import Engine
from steelyard_loadtest.simulate.request import Request
from steelyard_loadtest.simulate.speed import Speed

Leave = Callable[[float, Request], object]


class Station(Protocol):
    """Anything that work is done at."""

    def enter(self, now_s: float, request: Request, work_s: float) -> None:
        """Take a request with this much work, in seconds at speed 1."""

    def busy_s(self, now_s: float) -> float:
        """Return the core seconds in which something was served since the start."""


class Queue:
    """First come, first served by `cores` cores; a job's end is known when it starts."""

    __slots__ = ("_busy", "_busy_s", "_changed_s", "_cores", "_end", "_engine", "_leave", "_waiting")

    def __init__(self, engine: Engine, speed: Speed, cores: int, leave: Leave) -> None:
        self._engine, self._end, self._cores, self._leave = engine, speed.end, cores, leave
        self._waiting: deque[tuple[Request, float]] = deque()
        self._busy, self._busy_s, self._changed_s = 0, 0.0, 0.0

    def enter(self, now_s: float, request: Request, work_s: float) -> None:
        if self._busy < self._cores:
            self._busy_s += self._busy * (now_s - self._changed_s)
            self._changed_s = now_s
            self._busy += 1
            self._engine.at(self._end(now_s, work_s), self._done, request)
        else:
            self._waiting.append((request, work_s))

    def _done(self, now_s: float, request: Request) -> None:
        if self._waiting:
            following, work_s = self._waiting.popleft()
            self._engine.at(self._end(now_s, work_s), self._done, following)
        else:
            self._busy_s += self._busy * (now_s - self._changed_s)
            self._changed_s = now_s
            self._busy -= 1
        self._leave(now_s, request)

    def busy_s(self, now_s: float) -> float:
        return self._busy_s + self._busy * (now_s - self._changed_s)


class Sharing:
    """Processor sharing: each request gets the same service; whoever has had its own leaves.

    The service that one request has had since the start, V, is the same for all that were there; so
    a request that enters at V with work w leaves at V + w, and the next to leave is the top of a heap.
    """

    __slots__ = ("_busy_s", "_changed_s", "_cores", "_engine", "_inside", "_leave", "_order", "_speed", "_v")

    def __init__(self, engine: Engine, speed: Speed, cores: int, leave: Leave) -> None:
        self._engine, self._speed, self._cores, self._leave = engine, speed, cores, leave
        self._inside: list[tuple[float, int, Request]] = []
        self._v, self._busy_s, self._changed_s, self._order = 0.0, 0.0, 0.0, 0

    def enter(self, now_s: float, request: Request, work_s: float) -> None:
        self._advance(now_s)
        heappush(self._inside, (self._v + work_s, self._order, request))
        self._foresee(now_s)

    def _share(self) -> float:
        return min(1.0, self._cores / len(self._inside))

    def _advance(self, now_s: float) -> None:
        if self._inside:
            self._v += self._speed.work(self._changed_s, now_s) * self._share()
            self._busy_s += min(len(self._inside), self._cores) * (now_s - self._changed_s)
        self._changed_s = now_s

    def _foresee(self, now_s: float) -> None:
        """Ask to be called when the next request leaves, if none comes or goes before."""
        self._order += 1
        if self._inside:
            work_s = max(0.0, self._inside[0][0] - self._v) / self._share()
            self._engine.at(self._speed.end(now_s, work_s), self._done, self._order)

    def _done(self, now_s: float, order: int) -> None:
        if order != self._order:
            return  # somebody came or went; a later event stands for this one
        self._advance(now_s)
        v, _, request = heappop(self._inside)
        self._v = v  # not a rounding error away
        self._foresee(now_s)
        self._leave(now_s, request)

    def busy_s(self, now_s: float) -> float:
        return self._busy_s + min(len(self._inside), self._cores) * (now_s - self._changed_s)


class Delay:
    """Time that passes."""

    __slots__ = ("_engine", "_leave")

    def __init__(self, engine: Engine, leave: Leave) -> None:
        self._engine, self._leave = engine, leave

    def enter(self, now_s: float, request: Request, work_s: float) -> None:
        self._engine.at(now_s + work_s, self._leave, request)

    def busy_s(self, now_s: float) -> float:  # noqa: ARG002 - a station's
        return 0.0
