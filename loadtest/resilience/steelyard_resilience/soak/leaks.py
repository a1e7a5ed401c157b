"""The search for leaks: memory, descriptors and threads of each process, and the state at the end. Pure.

A process is known by its pid. Its readings count from the end of its warm-up to the end of the load. Among
similar processes (nginx's workers, agents, servers), the one with the largest growth represents all. There
are two estimates of growth, because each is blind to some leaks:

    trend = span x median of (v_j - v_i) / (t_j - t_i) over all i < j      (Theil 1950, Sen 1968)
    rise  = median of the last fifth - median of the first fifth

Outliers move neither: the trend withstands 29 % of arbitrary values. A permanent step and a late leak hardly
show in the trend, but they show in the rise.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from statistics import median

import numpy as np
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.reporting.wording import KB, MB

from steelyard_resilience.soak.readings import MASTER, REDIS, WORKER, Reading, Soaked, lives
from steelyard_resilience.soak.timetable import Plan

FIGURES = {
    "private_bytes": "private memory",
    "heap_bytes": "heap by its own count",
    "descriptors": "descriptors",
    "threads": "threads",
}
"""The judged members of a `Reading`, in words."""

COUNTS = ("descriptors", "threads")
"""Figures in pieces; the others are in bytes."""

FIFTH = 5
"""A fifth of half a minute's readings is six; a median of fewer would sometimes be an outlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of one figure, in its unit.

    begin, end: medians of the first and the last fifth. trend: over span_s.
    """

    begin: float
    end: float
    trend: float
    span_s: float

    def by(self, figure: str) -> float:
        """Return the growth of a figure.

        Processes seldom return memory, so the larger estimate counts. Descriptors and threads vary with the
        load, so the smaller one counts: otherwise a burst of connections would be a leak.
        """
        return (min if figure in COUNTS else max)(self.trend, self.end - self.begin)


def growth(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """Return the growth of at least two values at ascending times."""
    at, value = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    first, second = np.triu_indices(len(at), k=1)
    slope = float(np.median((value[second] - value[first]) / (at[second] - at[first])))
    span_s = times_s[-1] - times_s[0]
    part = max(1, len(values) // FIFTH)
    return Growth(
        begin=median(values[:part]), end=median(values[-part:]), trend=slope * span_s, span_s=span_s
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Growth that is no leak, by figure, in its unit; why: the reasons.

    A process is judged from the age of warm_up_s, or warm_up_part of a short soak.
    """

    bounds: Mapping[str, int]
    why: str
    warm_up_s: float = 120.0
    warm_up_part: float = 0.2

    def warm_after_s(self, seconds: float) -> float:
        """Return the age in seconds from which a process is judged, in a soak of that length."""
        return min(self.warm_up_s, seconds * self.warm_up_part)


NGINX = Allowed(
    bounds={"private_bytes": MB, "heap_bytes": MB, "descriptors": 32, "threads": 0},
    why="nginx: 1 MB, because LuaJIT's heap swings between two collections, and nginx keeps each new peak "
    "and the buffers of connections. 32 descriptors, because a burst of requests opens connections and nginx "
    "keeps them",
)
PYTHON = Allowed(
    bounds={"private_bytes": 2 * MB, "descriptors": 8, "threads": 4},
    why="Python: 2 MB, because CPython allocates arenas of 1 MB, and the C library allocates in blocks too. "
    "8 descriptors (demo servers: 24, for nginx's connections) and 4 threads, because both pools grow with "
    "concurrent work",
)
SERVER = replace(PYTHON, bounds={**PYTHON.bounds, "descriptors": 24})
HISTORY = Allowed(
    bounds={"heap_bytes": 512 * KB},
    why="Redis: 512 kB, once it holds the controllers' whole history, after 15 minutes (`--history-s`); "
    "until then it grows by design",
    warm_up_s=900.0,
    warm_up_part=1.0,
)

IN_FLIGHT_WITHIN_S = 10.0
"""After the load: an answer takes some 10 ms, and nginx's workers publish their counts each 0.2 s."""

JUDGED_LEAST_S = 30.0
"""A shorter life proves nothing: only a leak of 20 kB/s would stand out."""

KINDS = {
    MASTER: NGINX,
    WORKER: NGINX,
    "controller-1": PYTHON,
    "controller-2": PYTHON,
    "agents": PYTHON,
    "demo servers": SERVER,
    REDIS: HISTORY,
}
"""The judged processes, in the order of the table. Memcached is not one: all its items expire."""

MANY = {"agent-": "agents", "server-": "demo servers"}
"""Prefixes of the names of similar processes."""


def kind(process: str) -> str:
    """Return the kind of a process: a name of KINDS if the process is judged."""
    return next((name for prefix, name in MANY.items() if process.startswith(prefix)), process)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one process; growth: None if it did not live long enough to be judged.

    process: a name of KINDS. figure: one of FIGURES. lives: number of such processes judged. bound: in the
    figure's unit.
    """

    process: str
    figure: str
    lives: int
    growth: Growth | None
    bound: float

    @property
    def passed(self) -> bool:
        """Return whether it was judged, and its growth is within the bound."""
        return self.growth is not None and self.growth.by(self.figure) <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One requirement for the end of the soak, and the finding, in words."""

    requirement: str
    finding: str
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The rows of growth, and the checks at the end."""

    rows: tuple[Row, ...]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Return whether all rows and checks passed."""
        return all(row.passed for row in self.rows) and all(check.passed for check in self.checks)


def judge(soaked: Soaked, plan: Plan) -> Verdict:
    """Judge the readings and the end of a run."""
    by_kind = grouped(lives(soaked.readings).values(), lambda life: kind(life[0].process))
    rows = [
        row
        for name, may in KINDS.items()
        for row in _rows(name, [judged(life, may, plan) for life in by_kind.get(name, ())], may)
    ]
    return Verdict(rows=tuple(rows), checks=tuple(_checks(soaked, plan)))


def judged(life: Sequence[Reading], may: Allowed, plan: Plan) -> list[Reading]:
    """Return the readings of one process from its warm-up to the end of the load."""
    from_s = life[0].at_s + may.warm_after_s(plan.seconds)
    return [reading for reading in life if from_s <= reading.at_s <= plan.seconds]


def _rows(process: str, warm: Iterable[Sequence[Reading]], may: Allowed) -> Iterator[Row]:
    for figure, bound in may.bounds.items():
        grown = [growth for life in warm if (growth := _growth(life, figure))]
        # Only nginx's workers and Redis report a heap.
        if grown or figure != "heap_bytes":
            most = max(grown, key=methodcaller("by", figure), default=None)
            yield Row(process=process, figure=figure, lives=len(grown), growth=most, bound=bound)


def _growth(life: Sequence[Reading], figure: str) -> Growth | None:
    """Return the growth of the known values; None if they cover too short a time."""
    known = [(one.at_s, value) for one in life if (value := getattr(one, figure)) is not None]
    if not known or known[-1][0] - known[0][0] < JUDGED_LEAST_S:
        return None
    return growth([at_s for at_s, _ in known], [value for _, value in known])


def _checks(soaked: Soaked, plan: Plan) -> Iterator[Check]:
    failed = sum(soaked.failures.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(soaked.failures.items()))
    first = f": {kinds}; the first {soaked.first_failure_s or 0:.1f} s after the begin" if kinds else ""
    yield Check(
        requirement="every request is answered",
        finding=f"{failed:,} of {soaked.sent:,} failed{first}",
        passed=failed == 0 and soaked.sent > 0,
    )
    first = f"; the first: {soaked.refused[0]}" if soaked.refused else ""
    yield Check(
        requirement="the controller accepts every step of churn",
        finding=f"{len(soaked.refused)} of {soaked.steps:,} refused{first}",
        passed=not soaked.refused and soaked.steps > 0,
    )
    end = soaked.ending
    if end is None:
        return
    left = ", ".join(f"{count} at {server}" for server, count in sorted(end.in_flight.items()) if count)
    yield Check(
        requirement="no requests in flight at any server within "
        f"{IN_FLIGHT_WITHIN_S:.0f} s of the load's end",
        finding=left or ("no report" if end.settled_s is None else f"0 after {end.settled_s:.1f} s"),
        passed=end.settled_s is not None and end.settled_s <= IN_FLIGHT_WITHIN_S,
    )
    generations, workers = len(soaked.reloads) + 1, plan.nginx_workers
    seen = len({reading.pid for reading in soaked.readings if reading.process == WORKER})
    counts = f"{seen} workers in {generations} generations, {end.workers_left} at the end"
    yield Check(
        requirement="no restarts but nginx's reloads, and old workers exit",
        finding=", ".join(end.restarted) or counts,
        passed=not end.restarted and seen == workers * generations and end.workers_left == workers,
    )
