"""A closed loop around a law, with servers that may have open connections or long requests, or be unseen.

Deterministic, ticks of 1 s. The fluid model has the short requests; `LongRequests` has each by itself.
"""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.blend import Due, step_upstreams
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.snapshot import Bools, Floats, Snapshot

from testing.fluid_model import Window


class Serving(Protocol):
    """Servers that take a tick's requests."""

    capacity: Floats

    def serve(self, arriving: Floats) -> Window:
        """Take one tick's requests."""


S = TypeVar("S", bound=Serving)
T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Loop(Generic[S]):
    """k servers under a law; a case changes its fields between ticks.

    open       connections that are merely open
    late       factor by which a request takes longer than its work
    away       the server gets no request, for any reason; its agent is as `sampled` says
    reported   whether load balancers report
    cost       reported cost of a request at each server; NaN: not reported
    up_s       time that each server has been up; NaN: not reported
    """

    law: laws.Law
    servers: S
    demand: float
    open: Floats = field(default_factory=lambda: np.zeros(1))
    late: Floats = field(default_factory=lambda: np.ones(1))
    away: Bools = field(default_factory=lambda: np.zeros(1, dtype=np.bool_))
    sampled: Bools = field(default_factory=lambda: np.ones(1, dtype=np.bool_))
    reported: bool = True
    cost: Floats = field(default_factory=lambda: np.full(1, np.nan))
    up_s: Floats = field(default_factory=lambda: np.full(1, np.nan))
    shares: list[Floats] = field(default_factory=list)

    def ticks(self, count: int) -> Decision:
        """Run for a number of ticks; return the last decision."""
        for _ in range(count):
            self._memory, decision = self.law.step(self.memory(), self.serve())
            self.follow(decision)
        return decision

    def memory(self) -> laws.Memory:
        """Return the law's memory."""
        return self._memory if self.shares else self.law.start()

    def serve(self) -> Snapshot:
        """Serve the requests of a tick, and return what the law gets to know."""
        k = len(self.servers.capacity)
        weights = np.where(self.away, 0.0, self.shares[-1] if self.shares else np.full(k, 1.0 / k))
        return self._snapshot(self.servers.serve(self.demand * weights / weights.sum()))

    def follow(self, decision: Decision) -> None:
        """Take the law's decision as the next tick's shares."""
        self.shares.append(decision.weights / decision.total)
        self.up_s = self.up_s + 1.0

    def share(self, server: int) -> float:
        """Return the share that a server has now."""
        return float(self.shares[-1][server])

    _memory: laws.Memory = field(init=False)

    def _snapshot(self, window: Window) -> Snapshot:
        k = len(window.completed)
        seen = np.where(self.reported, 1.0, np.nan)
        return Snapshot(
            t_s=float(len(self.shares)),
            ids=tuple(f"server-{j}" for j in range(k)),
            utilization=np.where(self.sampled[..., None], np.minimum(window.utilization, 1.0), np.nan),
            sample_age_ticks=np.zeros(k, dtype=np.int64),
            capacity=np.full((k, 4), np.nan),
            baseline=np.ones(k),
            completed=window.completed * seen,
            failed=window.failed * seen,
            in_flight=(window.in_flight + self.open) * seen,
            latency_s=window.latency_s * self.late * seen,
            leaving=np.zeros(k, dtype=np.bool_),
            cost=window.completed * self.cost * seen,
            up_s=self.up_s * np.ones(k),
        )


def ticks_at_once(loops: Sequence[Loop[S]], count: int) -> list[Decision]:
    """Run loops for a number of ticks, which takes less time than to run each; return the last decisions."""
    for _ in range(count):
        due = [
            Due(laws={"": each.law}, memories={"": each.memory()}, snapshot=each.serve()) for each in loops
        ]
        decisions = []
        for loop, stepped in zip(loops, step_upstreams(due), strict=True):
            loop._memory, decision = stepped.memories[""], stepped.decisions[""]
            loop.follow(decision)
            decisions.append(decision)
    return decisions


Course = Generator[tuple[Sequence[Loop[Any]], int], Sequence[Decision], T]
"""Yields loops and the number of ticks to run them for, gets their last decisions, and returns a result."""


def run_at_once(courses: Sequence[Course[T]]) -> list[T]:
    """Run courses beside each other, so that their loops step at once; return the result of each."""
    results: dict[int, T] = {}
    wanted = {number: next(course) for number, course in enumerate(courses)}
    while wanted:
        ticks = min(count for _, count in wanted.values())
        decisions = iter(ticks_at_once([loop for loops, _ in wanted.values() for loop in loops], ticks))
        for number, (loops, count) in list(wanted.items()):
            last = list(itertools.islice(decisions, len(loops)))
            if count > ticks:
                wanted[number] = loops, count - ticks
                continue
            try:
                wanted[number] = courses[number].send(last)
            except StopIteration as ended:
                results[number] = ended.value
                del wanted[number]
    return [results[number] for number in range(len(courses))]


class LongRequests:
    """Servers at which each request takes `alone_s` when it is alone, and longer where they share.

    A server does `capacity` requests a second when it has enough of them; requests come evenly spaced and go
    by smooth weighted round robin. Ten steps a second.
    """

    STEP_S = 0.1

    def __init__(self, capacity: Floats, alone_s: Floats) -> None:
        self.capacity, self._alone_s = capacity, alone_s
        self._left: list[list[float]] = [[] for _ in capacity]
        self._ages: list[list[float]] = [[] for _ in capacity]
        self._due, self._current = 0.0, np.zeros(len(capacity))

    def serve(self, arriving: Floats) -> Window:
        """Take one tick's requests."""
        k, done, busy = len(self.capacity), np.zeros(len(self.capacity)), np.zeros(len(self.capacity))
        took_s = np.zeros(k)
        for _ in range(round(1 / self.STEP_S)):
            self._due += arriving.sum() * self.STEP_S
            while self._due >= 1.0:
                self._due -= 1.0
                self._current += arriving / arriving.sum()
                chosen = int(np.argmax(self._current))
                self._current[chosen] -= 1.0
                self._left[chosen].append(1.0)
                self._ages[chosen].append(0.0)
            for j in range(k):
                count = len(self._left[j])
                speed = min(1.0 / self._alone_s[j], self.capacity[j] / max(count, 1))
                busy[j] += self.STEP_S * count * speed / self.capacity[j]
                left = [each - speed * self.STEP_S for each in self._left[j]]
                ages = [each + self.STEP_S for each in self._ages[j]]
                ended = [age for age, rest in zip(ages, left, strict=True) if rest <= 1e-9]
                done[j], took_s[j] = done[j] + len(ended), took_s[j] + sum(ended)
                self._ages[j] = [age for age, rest in zip(ages, left, strict=True) if rest > 1e-9]
                self._left[j] = [rest for rest in left if rest > 1e-9]
        return Window(
            utilization=np.column_stack((busy, 0.3 * busy, 0.05 * busy, 0.1 * busy)),
            completed=done,
            failed=np.zeros(k),
            in_flight=np.array([float(len(each)) for each in self._left]),
            latency_s=np.divide(took_s, done, out=np.full(k, np.nan), where=done > 0),
        )


@dataclass(slots=True, kw_only=True)
class FewRequests:
    """k equal servers with requests by chance (Poisson), beside others' load that varies by chance.

    cost           load seconds of a request of 12 ms
    others, vary   mean and standard deviation of others' load
    lost           part of the samples, and of the reports, that never come
    """

    k: int
    others: float
    vary: float
    chance: np.random.Generator
    cost: float = 0.0025
    lost: float = 0.0
    capacity: Floats = field(init=False)
    _current: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.capacity, self._current = np.full(self.k, 1.0 / self.cost), np.zeros(self.k)

    def serve(self, arriving: Floats) -> Window:
        """Take one tick's requests, by smooth weighted round robin."""
        done, shares = np.zeros(self.k), arriving / arriving.sum()
        for _ in range(self.chance.poisson(arriving.sum())):
            self._current += shares
            chosen = int(np.argmax(self._current))
            self._current[chosen] -= 1.0
            done[chosen] += 1.0
        busy = np.clip(self.chance.normal(self.others, self.vary, self.k), 0.0, 1.0) + self.cost * done
        sampled, reported = (np.where(self.chance.random() < self.lost, np.nan, 1.0) for _ in range(2))
        return Window(
            utilization=np.column_stack((busy, 0.3 * busy, 0.05 * busy, 0.1 * busy)) * sampled,
            completed=done * reported,
            failed=np.zeros(self.k) * reported,
            in_flight=np.zeros(self.k) * reported,
            latency_s=np.where(done > 0, 0.012, np.nan) * reported,
        )
