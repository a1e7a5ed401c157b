"""Whether anything leaked: memory, descriptors and threads of each process, and what was left. Pure.

Of each process, told apart by its pid, the readings count that came after its warm-up and
before the end of the load. Of several alike (nginx's workers, agents, servers) the one that
grew most stands for all.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard_loadtest.soak.bounds import (
    HISTORY_S,
    IN_FLIGHT_WITHIN_S,
    JUDGED_LEAST_S,
    KINDS,
    REDIS_BYTES,
    Allowed,
    kind,
)
from steelyard_loadtest.soak.growth import Growth, growth
from steelyard_loadtest.soak.plan import Plan
from steelyard_loadtest.soak.records import WORKER, Overview, Reading, Soaked

MEMORY, DESCRIPTORS, THREADS, LUA = "private memory", "descriptors", "threads", "LuaJIT heap"
COUNTS = (DESCRIPTORS, THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one process; found: None, it did not live long enough to be judged.

    process: a name of bounds.KINDS. lives: how many such processes were judged. bound: in the figure's unit.
    """

    process: str
    figure: str
    lives: int
    found: Growth | None
    bound: float

    @property
    def grown(self) -> float | None:
        """Return by how much it grew.

        Memory that is once taken is seldom given back, so either estimate counts. Descriptors and threads
        come and go with the load: they must have grown by both, or a burst of connections would be a leak.
        """
        if self.found is None:
            return None
        return self.found.least if self.figure in COUNTS else self.found.most

    @property
    def passed(self) -> bool:
        """Tell whether it was judged, and grew no more than it may."""
        return self.grown is not None and self.grown <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must be true at the end; found: what was, in words."""

    what: str
    found: str
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
    lives: dict[str, dict[int, list[Reading]]] = {name: defaultdict(list) for name in KINDS}
    for reading in soaked.readings:
        name = kind(reading.process)
        if name is not None:
            lives[name][reading.pid].append(reading)
    rows: list[Row] = []
    for name, may in KINDS.items():
        rows += _rows(name, [_warm(life, may, plan) for life in lives[name].values()], may)
    return Verdict(rows=(*rows, *_redis(soaked.overviews)), checks=tuple(_checks(soaked, plan)))


def newest_growth(readings: Sequence[Reading], plan: Plan) -> Growth | None:
    """Return the growth of one process's private memory so far; None while it is too early to tell."""
    name = kind(readings[0].process) if readings else None
    warm = _warm(readings, KINDS[name], plan) if name else []
    if not _long(warm):
        return None
    return growth([one.at_s for one in warm], [one.private_bytes for one in warm])


def _warm(life: Sequence[Reading], may: Allowed, plan: Plan) -> list[Reading]:
    from_s = life[0].at_s + may.warm_after_s(plan.seconds) if life else 0.0
    return [reading for reading in life if from_s <= reading.at_s <= plan.seconds]


def _long(life: Sequence[Reading]) -> bool:
    return len(life) > 1 and life[-1].at_s - life[0].at_s >= JUDGED_LEAST_S


def _rows(process: str, lives: Iterable[Sequence[Reading]], may: Allowed) -> list[Row]:
    judged = [life for life in lives if _long(life)]
    found: list[Row] = []
    for figure, member, bound in (
        (MEMORY, "private_bytes", may.private_bytes),
        (LUA, "lua_bytes", may.private_bytes),
        (DESCRIPTORS, "descriptors", may.descriptors),
        (THREADS, "threads", may.threads),
    ):
        grown = [one for life in judged if (one := _growth(life, member)) is not None]
        if figure == LUA and not grown:
            continue  # nginx's workers have one, and tell it only while they are asked
        most = max(grown, key=lambda one: one.most, default=None)
        found.append(Row(process=process, figure=figure, lives=len(grown), found=most, bound=bound))
    return found


def _growth(life: Sequence[Reading], member: str) -> Growth | None:
    known = [(one.at_s, value) for one in life if (value := getattr(one, member)) is not None]
    if len(known) < 2:
        return None
    return growth([at_s for at_s, _ in known], [value for _, value in known])


def _redis(overviews: Sequence[Overview]) -> list[Row]:
    # Before, its history fills up.
    known = [
        (one.at_s, one.redis_bytes)
        for one in overviews
        if one.redis_bytes is not None and one.at_s >= HISTORY_S
    ]
    if len(known) < 2 or known[-1][0] - known[0][0] < JUDGED_LEAST_S:
        return []
    found = growth([at_s for at_s, _ in known], [used for _, used in known])
    return [Row(process="redis", figure="used memory", lives=1, found=found, bound=REDIS_BYTES)]


def _checks(soaked: Soaked, plan: Plan) -> list[Check]:
    failed = sum(soaked.failures.values())
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(soaked.failures.items()))
    checks = [
        Check(
            what="every request is answered",
            found=f"{failed:,} of {soaked.sent:,} failed"
            + (f": {kinds}; the first {soaked.first_failure_s or 0:.1f} s after the begin" if kinds else ""),
            passed=failed == 0 and soaked.sent > 0,
        ),
        Check(
            what="every step of churn is taken",
            found=f"{len(soaked.refused)} of {soaked.steps:,} refused"
            + (f"; the first: {soaked.refused[0]}" if soaked.refused else ""),
            passed=not soaked.refused and soaked.steps > 0,
        ),
    ]
    end = soaked.ending
    if end is None:
        return checks
    left = ", ".join(f"{count} at {server}" for server, count in sorted(end.in_flight.items()) if count)
    generations = len(soaked.reloads) + 1
    seen = len({reading.pid for reading in soaked.readings if reading.process == WORKER})
    return [
        *checks,
        Check(
            what=f"in flight at each server is 0 within {IN_FLIGHT_WITHIN_S:.0f} s of the load's end",
            found=left or ("never told" if end.settled_s is None else f"0 after {end.settled_s:.1f} s"),
            passed=end.settled_s is not None and end.settled_s <= IN_FLIGHT_WITHIN_S,
        ),
        Check(
            what="no daemon restarts, no worker but by a reload, and those sent away go",
            found=", ".join(end.restarted)
            or f"{seen} workers in {generations} generations, {end.workers_left} at the end",
            passed=not end.restarted
            and seen == plan.nginx_workers * generations
            and end.workers_left == plan.nginx_workers,
        ),
    ]
