"""The traffic between two readings: completed, failed, in flight and latency of each server.

Pure. A window is reported only if it was seen whole:

- every process of its beginning exists at its end. One that has ended took its counts along. If a reload had
  replaced it before, only its requests since the last reading are missing, and the window counts;
- a new process began within it, and counts from 0;
- no counter fell. They fall for all servers at `clear counters all`, and for a server that was removed and
  added again, which then has no figures in this window;
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A server's traffic in a window, at one process or all; `latency_ms` None: nothing was completed."""

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
        if broken is not None or not before:
            totals = {}
        self._totals = {}
        parts_of: defaultdict[str, dict[str, list[Figures | None]]] = defaultdict(dict)
        for process in processes:
            for backend, servers in process.servers.items():
                for row in (servers or {}).values():
                    place = process.via, process.pid, backend, row.name
                    self._totals[place], part = _Totals.after(totals.get(place), row)
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
    """A server's totals at one reading. `completed` never falls: in TCP a retry hides some for a while."""

    completed: int
    failed: int
    looks: tuple[latency.Look, ...]

    @classmethod
    def after(cls, before: "_Totals | None", row: ServerRow) -> "tuple[_Totals, Figures | None]":
        """Return the totals now, and the traffic since; None if its counters were reset meanwhile."""
        look = row.timed, row.latency_ms
        fell = before is not None and (row.timed < before.looks[-1][0] or row.failed < before.failed)
        if before is None or fell:
            before = cls(completed=0, failed=0, looks=((0, 0),))
        looks = before.looks if look[0] == before.looks[-1][0] else (*before.looks, look)
        totals = cls(
            completed=max(before.completed, row.completed), failed=row.failed, looks=latency.kept(looks)
        )
        return totals, None if fell else Figures(
            completed=totals.completed - before.completed,
            failed=row.failed - before.failed,
            in_flight=row.in_flight,
            latency_ms=latency.mean_ms(looks),
        )


def _sum(parts: Sequence[Figures | None]) -> Figures | None:
    seen = [part for part in parts if part is not None]
    if len(seen) < len(parts):
        return None
    completed = sum(part.completed for part in seen)
    spent_ms = sum(part.completed * (part.latency_ms or 0.0) for part in seen)
    return Figures(
        completed=completed,
        failed=sum(part.failed for part in seen),
        in_flight=sum(part.in_flight for part in seen),
        latency_ms=spent_ms / completed if completed else None,
    )


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
