"""Whether anything leaked: memory, descriptors and threads of each process, and what was left. Pure.

Of each process, told apart by its pid, the readings count that came after its warm-up and before the end of
the load. Of several alike (nginx's workers, agents, servers) the one that grew most stands for all. There are
two estimates of growth, because each is blind to what the other sees:

    trend = span x median of (v_j - v_i) / (t_j - t_i) over all i < j      (Theil 1950, Sen 1968)
    rise  = median of the last fifth - median of the first fifth

Outliers move neither: up to 29 % of the values may be anything before the trend follows them. A step early on
that is never taken back hardly shows in the trend, but in the rise; what grows steadily shows in both.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.reporting.wording import KB, MB

from steelyard_resilience.soak.readings import MASTER, WORKER, Overview, Reading, Soaked, lives
from steelyard_resilience.soak.timetable import Plan

FIFTH = 5
"""A fifth of half a minute's readings is six: a median of fewer would be an outlier now and then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """begin, end: medians of the first and the last fifth. trend: over span_s, in the figure's unit."""

    begin: float
    end: float
    trend: float
    span_s: float

    @property
    def most(self) -> float:
        """Return the larger of the two estimates."""
        return max(self.trend, self.end - self.begin)

    @property
    def least(self) -> float:
        """Return the smaller of the two estimates."""
        return min(self.trend, self.end - self.begin)

    @property
    def trend_per_hour(self) -> float:
        """Return the trend as a rate."""
        return self.trend / self.span_s * 3600


def growth(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the growth of values at ascending times. Raises ValueError for fewer than two moments."""
    if len(times_s) < 2 or times_s[-1] <= times_s[0]:
        raise ValueError("growth needs two moments at least")
    span_s = times_s[-1] - times_s[0]
    part = max(1, len(values) // FIFTH)
    return Growth(
        begin=median(values[:part]),
        end=median(values[-part:]),
        trend=theil_sen(times_s, values) * span_s,
        span_s=span_s,
    )


def theil_sen(times_s: Sequence[float], values: Sequence[float]) -> float:
    """Return the median slope over all pairs, per second; of ascending times."""
    at, value = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    first, second = np.triu_indices(len(at), k=1)
    apart = at[second] - at[first]
    differ = apart > 0
    return float(np.median((value[second] - value[first])[differ] / apart[differ]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Growth that is no leak: private memory in bytes, descriptors, threads; why: the reasons.

    A process is judged once it is warm_up_s old, or warm_up_part of a short soak.
    """

    private_bytes: int
    descriptors: int
    threads: int
    why: str
    warm_up_s: float = 120.0
    warm_up_part: float = 0.2

    def warm_after_s(self, seconds: float) -> float:
        """Return how old a process must be to be judged, in a soak of so many seconds."""
        return min(self.warm_up_s, seconds * self.warm_up_part)


NGINX = Allowed(
    private_bytes=MB,
    descriptors=32,
    threads=0,
    why="nginx: 1 MB, for LuaJIT's heap swings between two collections, a new peak is kept, and so are the "
    "buffers of connections; 32 descriptors, for requests that pile up open connections, which are then kept "
    "(in a short soak Lua is interpreted: LuaJIT goes on for minutes to compile what is seldom done)",
)
# A trace takes 2 kB; after two minutes there were 250 in a worker without requests, and in one with load and
# churn its heap had grown by 1.6 MB. With jit.off() it stays at 0.6 MB, to 10 kB.
# In half an hour of both it gained 4.5 MB in the first ten minutes, and half a megabyte in the ten after it.
COMPILING = replace(NGINX, warm_up_s=600.0, warm_up_part=1 / 3)
PYTHON = Allowed(
    private_bytes=2 * MB,
    descriptors=8,
    threads=4,
    why="Python: 2 MB, for CPython takes memory in arenas of 1 MB, and the C library in pieces too; "
    "8 descriptors (demo servers: 24, for nginx's connections) and 4 threads, for pools of both grow with "
    "what is done at the same time",
)
SERVER = replace(PYTHON, descriptors=24)
REDIS_BYTES = 512 * KB
HISTORY_S = 900.0
"""The controllers keep so much history in Redis, which fills up for that long by design (`--history-s`)."""

IN_FLIGHT_WITHIN_S = 10.0
"""After the load: an answer takes some 10 ms, and nginx's workers tell what is in flight each 0.2 s."""

JUDGED_LEAST_S = 30.0
"""A shorter life tells nothing: a leak would have to be of 20 kB/s to stand out."""


KINDS = {
    MASTER: NGINX,
    WORKER: COMPILING,
    "controller-1": PYTHON,
    "controller-2": PYTHON,
    "agents": PYTHON,
    "demo servers": SERVER,
}
"""What is judged, in the order of the table. The stores have counters of their own."""

MANY = {"agent-": "agents", "server-": "demo servers"}
"""Of these there are several alike."""


def kind(process: str) -> str | None:
    """Return under which name of KINDS a process is judged; None: it is not."""
    for prefix, name in MANY.items():
        if process.startswith(prefix):
            return name
    return process if process in KINDS else None


MEMORY, DESCRIPTORS, THREADS, LUA = "private memory", "descriptors", "threads", "LuaJIT heap"
COUNTS = (DESCRIPTORS, THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one process; growth: None, it did not live long enough to be judged.

    process: a name of KINDS. lives: how many such processes were judged. bound: in the figure's unit.
    """

    process: str
    figure: str
    lives: int
    growth: Growth | None
    bound: float

    @property
    def grown(self) -> float | None:
        """Return by how much it grew.

        Memory that is once taken is seldom given back, so either estimate counts. Descriptors and threads
        come and go with the load: they must have grown by both, or a burst of connections would be a leak.
        """
        if self.growth is None:
            return None
        return self.growth.least if self.figure in COUNTS else self.growth.most

    @property
    def passed(self) -> bool:
        """Tell whether it was judged, and grew no more than it may."""
        return self.grown is not None and self.grown <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must be true at the end; told: what was, in words."""

    what: str
    told: str
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All that was judged."""

    rows: tuple[Row, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Tell whether all of it is as it must be."""
        return all(row.passed for row in self.rows) and all(check.passed for check in self.checks)


def judge(soaked: Soaked, plan: Plan) -> Verdict:
    """Judge what a run saw."""
    by_kind = grouped(lives(soaked.readings).values(), lambda life: kind(life[0].process))
    rows = [
        row
        for name, may in KINDS.items()
        for row in _rows(name, [_warm(life, may, plan) for life in by_kind.get(name, ())], may)
    ]
    # Before, its history fills up.
    redis = _growth([one for one in soaked.overviews if one.at_s >= HISTORY_S], "redis_bytes")
    if redis:
        rows.append(Row(process="redis", figure="used memory", lives=1, growth=redis, bound=REDIS_BYTES))
    return Verdict(rows=tuple(rows), checks=tuple(_checks(soaked, plan)))


def newest_growth(readings: Sequence[Reading], plan: Plan) -> Growth | None:
    """Return the growth of one process's private memory so far; None: it is too early, or not judged."""
    name = kind(readings[0].process)
    return _growth(_warm(readings, KINDS[name], plan), "private_bytes") if name else None


def _warm(life: Sequence[Reading], may: Allowed, plan: Plan) -> list[Reading]:
    from_s = life[0].at_s + may.warm_after_s(plan.seconds)
    return [reading for reading in life if from_s <= reading.at_s <= plan.seconds]


def _rows(process: str, judged: Iterable[Sequence[Reading]], may: Allowed) -> Iterator[Row]:
    for figure, member, bound in (
        (MEMORY, "private_bytes", may.private_bytes),
        (LUA, "lua_bytes", may.private_bytes),
        (DESCRIPTORS, "descriptors", may.descriptors),
        (THREADS, "threads", may.threads),
    ):
        grown = [growth for life in judged if (growth := _growth(life, member))]
        if grown or figure != LUA:  # nginx's workers have one, and tell it only while they are asked
            most = max(grown, key=lambda one: one.most, default=None)
            yield Row(process=process, figure=figure, lives=len(grown), growth=most, bound=bound)


def _growth(items: Sequence[Reading] | Sequence[Overview], member: str) -> Growth | None:
    """Return the growth of what is known; None: not for long enough."""
    known = [(one.at_s, value) for one in items if (value := getattr(one, member)) is not None]
    if not known or known[-1][0] - known[0][0] < JUDGED_LEAST_S:
        return None
    return growth([at_s for at_s, _ in known], [value for _, value in known])


def _checks(soaked: Soaked, plan: Plan) -> Iterator[Check]:
    failed = sum(soaked.failures.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(soaked.failures.items()))
    first = f": {kinds}; the first {soaked.first_failure_s or 0:.1f} s after the begin" if kinds else ""
    yield Check(
        what="every request is answered",
        told=f"{failed:,} of {soaked.sent:,} failed{first}",
        passed=failed == 0 and soaked.sent > 0,
    )
    first = f"; the first: {soaked.refused[0]}" if soaked.refused else ""
    yield Check(
        what="every step of churn is taken",
        told=f"{len(soaked.refused)} of {soaked.steps:,} refused{first}",
        passed=not soaked.refused and soaked.steps > 0,
    )
    end = soaked.ending
    if end is None:
        return
    left = ", ".join(f"{count} at {server}" for server, count in sorted(end.in_flight.items()) if count)
    yield Check(
        what=f"in flight at each server is 0 within {IN_FLIGHT_WITHIN_S:.0f} s of the load's end",
        told=left or ("never told" if end.settled_s is None else f"0 after {end.settled_s:.1f} s"),
        passed=end.settled_s is not None and end.settled_s <= IN_FLIGHT_WITHIN_S,
    )
    generations, workers = len(soaked.reloads) + 1, plan.nginx_workers
    seen = len({reading.pid for reading in soaked.readings if reading.process == WORKER})
    there = f"{seen} workers in {generations} generations, {end.workers_left} at the end"
    yield Check(
        what="no daemon restarts, no worker but by a reload, and those sent away go",
        told=", ".join(end.restarted) or there,
        passed=not end.restarted and seen == workers * generations and end.workers_left == workers,
    )
