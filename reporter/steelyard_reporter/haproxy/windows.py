"""The traffic between two readings: completed, failed, in flight and latency of each server.

Pure. A window is reported only if it was seen whole:

- every process of its beginning exists at its end. One that has ended took its counts along. If a reload had
  replaced it before, only its requests since the last reading are missing, and the window counts;
- a new process began within it. Up to HAProxy 2.9 it counts from 0. Later ones may begin with old counts
  (`stats-file`, `shm-stats-file`), so a server that is first seen with counts has no figures in this window;
- no counter fell. They fall for all servers at `clear counters all`, and for a server that was removed and
  added again, which then has no figures in this window;
- processes of one socket that share their counters (`shm-stats-file`) count once;
- it is at most `LONGEST_INTERVALS` intervals long: traffic of half a minute ago is not present traffic.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard_reporter.haproxy import latency
from steelyard_reporter.haproxy.show_stat import Process, ServerRow

# In intervals. A skipped tick makes a window of two.
LONGEST_INTERVALS = 2.5

# HAProxy's uptime has whole seconds.
UPTIME_SLACK_S = 2.0

# Versions: the first with `stats-file`; the first with `shm-stats-file` and with counters by thread group.
OLD_COUNTS_SINCE = (3, 0)
SHARED_COUNTS_SINCE = (3, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A server's traffic in a window, at one process or all.

    `latency_ms` is None if nothing was completed, or if it is unknown yet.
    """

    completed: int
    failed: int
    in_flight: int
    latency_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window: its length, and the figures by backend and server. `broken` is the reason if it has none."""

    interval_s: float
    figures: Mapping[str, Mapping[str, Figures]]
    broken: str | None = None


_Place = tuple[str, int, str, str]
"""A server as one process has it: socket, pid, backend, server."""


class Windows:
    """Keeps the last reading, and the looks at each server's latency; `interval_s` is the usual length."""

    def __init__(self, interval_s: float) -> None:
        self._longest_s = LONGEST_INTERVALS * interval_s
        self._at_s = 0.0
        self._processes: Mapping[tuple[str, int], Process] = {}
        self._totals: dict[_Place, _Totals] = {}

    def next(self, processes: Sequence[Process], at_s: float) -> Window | None:
        """Return the window that ends with this reading, `at_s` on the monotonic clock; None at the first."""
        before, totals, length_s = self._processes, self._totals, at_s - self._at_s
        self._at_s = at_s
        self._processes = {(each.via, each.pid): each for each in processes}
        broken = _why_broken(before, self._processes, length_s, self._longest_s)
        if broken is not None:  # only the means of the processes that go on are needed
            ended = _ended(before, self._processes)
            totals = {place: each for place, each in totals.items() if place[:2] not in ended}
        self._totals = {}
        parts_of: defaultdict[str, dict[str, list[Figures | None]]] = defaultdict(dict)
        copies = _copies(before, processes)
        for process in processes:
            for backend, servers in process.servers.items():
                for row in (servers or {}).values():
                    place = process.via, process.pid, backend, row.name
                    self._totals[place], part = _Totals.after(totals.get(place), row, process)
                    if part is not None and (process.via, process.pid) in copies:
                        part = Figures(completed=0, failed=0, in_flight=row.in_flight, latency_ms=None)
                    parts_of[backend].setdefault(row.name, []).append(part)
        if not before:
            return None
        if broken is not None:
            return Window(interval_s=length_s, figures={}, broken=broken)
        return Window(
            interval_s=length_s,
            figures={
                backend: {
                    name: figures for name, parts in servers.items() if (figures := _sum(parts)) is not None
                }
                for backend, servers in parts_of.items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """A server's totals at one reading.

    `completed` never falls, although HAProxy's counts of it do: in TCP a retry hides some for a while, and a
    response that breaks off was completed when its header came.
    """

    completed: int
    failed: int
    looks: tuple[latency.Look, ...]
    truth: latency.Truth

    @classmethod
    def after(
        cls, before: "_Totals | None", row: ServerRow, process: Process
    ) -> "tuple[_Totals, Figures | None]":
        """Return the totals now, and the traffic since; None if a part of it is unknown.

        It is if the counters were reset meanwhile, or are seen for the first time and may be old.
        """
        look = row.timed, row.latency_ms
        fell = before is not None and (row.timed < before.looks[-1][0] or row.failed < before.failed)
        unknown = fell
        if before is None or fell:
            may_be_old = process.version >= OLD_COUNTS_SINCE and (row.completed, row.failed, row.timed) != (
                0,
                0,
                0,
            )
            unknown = fell or may_be_old
            groups = process.groups if process.version >= SHARED_COUNTS_SINCE else 1
            before = cls(
                completed=0,
                failed=0,
                looks=(look if may_be_old else (0, 0),),
                truth=latency.truth(row.timed, groups, began_at_0=not may_be_old),
            )
        looks = before.looks if look[0] == before.looks[-1][0] else (*before.looks, look)
        totals = cls(
            completed=max(before.completed, row.completed),
            failed=row.failed,
            looks=latency.kept(looks),
            truth=before.truth,
        )
        return totals, None if unknown else Figures(
            completed=totals.completed - before.completed,
            failed=row.failed - before.failed,
            in_flight=row.in_flight,
            latency_ms=latency.mean_ms(looks, before.truth),
        )


def _sum(parts: Sequence[Figures | None]) -> Figures | None:
    seen = [part for part in parts if part is not None]
    if len(seen) < len(parts):
        return None
    completed = sum(part.completed for part in seen)
    timed = [(part.completed, part.latency_ms) for part in seen if part.latency_ms is not None]
    requests = sum(count for count, _ in timed)
    return Figures(
        completed=completed,
        failed=sum(part.failed for part in seen),
        in_flight=sum(part.in_flight for part in seen),
        latency_ms=sum(count * mean for count, mean in timed) / requests if requests else None,
    )


def _copies(before: Mapping[tuple[str, int], Process], now: Sequence[Process]) -> frozenset[tuple[str, int]]:
    """Return the processes whose counters are those of another process at the same socket.

    They are read one after the other, P then Q. The readings 0 and 1 are the window's two ends. Their
    counters are shared if P0 <= Q0 <= P1 <= Q1 at each server.
    """
    copies = set()
    known = [process for process in now if (process.via, process.pid) in before]
    for index, second in enumerate(known):
        for first in known[:index]:
            if first.via != second.via or min(first.version, second.version) < SHARED_COUNTS_SINCE:
                continue
            ends = [_counts(before[first.via, first.pid]), _counts(before[second.via, second.pid])]
            ends += [_counts(first), _counts(second)]
            places = set.intersection(*(set(end) for end in ends))
            steps = [[end[place] for end in ends] for place in places]
            if any(sum(step) for step in steps) and all(step == sorted(step) for step in steps):
                copies.add((second.via, second.pid))
    return frozenset(copies)


def _ended(
    before: Mapping[tuple[str, int], Process], now: Mapping[tuple[str, int], Process]
) -> frozenset[tuple[str, int]]:
    """Return the processes that have ended, or whose pid is another one's now."""
    return frozenset(
        key for key, known in before.items() if key not in now or now[key].uptime_s < known.uptime_s
    )


def _counts(process: Process) -> Mapping[tuple[str, str], int]:
    return {
        (backend, row.name): row.timed + row.failed
        for backend, servers in process.servers.items()
        for row in (servers or {}).values()
    }


def _why_broken(
    before: Mapping[tuple[str, int], Process],
    now: Mapping[tuple[str, int], Process],
    length_s: float,
    longest_s: float,
) -> str | None:
    if not before:
        return None
    for (via, pid), process in before.items():
        if (via, pid) not in now and not process.ending:
            others = ", ".join(str(each.pid) for each in now.values() if each.via == via)
            return f"HAProxy at {via} was restarted or reloaded: process {pid} is gone, there is {others}"
    for (via, pid), process in now.items():
        known = before.get((via, pid))
        if known is None and process.uptime_s > length_s + UPTIME_SLACK_S:
            return f"process {pid} at {via} is older than this window"
        if known is not None and process.uptime_s < known.uptime_s:
            return f"HAProxy at {via} was restarted under the same pid, {pid}"
    if length_s > longest_s:
        return f"nothing was read for {length_s:.1f} s"
    return None
