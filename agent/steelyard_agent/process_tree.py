"""What a tree of processes spent between two readings, though its members come and go.

Pure. A process that is waited for hands all it spent to its parent's "reaped"
counters, so a child's time is counted once if what was last seen of those
that ended is taken off what their nearest surviving ancestor reaped:

    spent = sum over survivors of  (own' - own) + max(0, (reaped' - reaped) - last seen of the ended below it)
          + sum over newcomers of  own' + reaped'

The max: a child that nobody waits for (SIGCHLD ignored) or that was adopted
by init is in nobody's reaped counters; it counts what was last seen of it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from steelyard_agent.reading import ProcessCounters, ProcessReading

# The kernel counts in ticks of 10 ms: start times and CPU times are that coarse.
TICK_S = 0.01


def cpu_spent_s(before: ProcessReading, after: ProcessReading) -> float | None:
    """Return the CPU seconds the tree spent, or None when the counters contradict each other."""
    ended = _ended(before, after, {pid: p.cpu_s + p.reaped_cpu_s for pid, p in before.processes.items()})
    spent = 0.0
    for pid, was, now in _members(before, after):
        if was is None:
            spent += now.cpu_s + now.reaped_cpu_s
            continue
        own, reaped = now.cpu_s - was.cpu_s, now.reaped_cpu_s - was.reaped_cpu_s
        if own < 0 or reaped < 0:
            return None
        spent += own + max(0.0, reaped - ended[pid])
    return None if _beyond_the_machine(spent, before, after) else spent


def io_calls(before: ProcessReading, after: ProcessReading) -> float | None:
    """Return how many read and write calls the tree made, or None when a member's could not be read."""
    everyone = [*before.processes.values(), *after.processes.values()]
    if any(process.io_calls is None for process in everyone):
        return None
    ended = _ended(before, after, {pid: p.io_calls or 0 for pid, p in before.processes.items()})
    calls = 0.0
    for pid, was, now in _members(before, after):
        more = (now.io_calls or 0) - (was.io_calls or 0 if was else 0)
        if more < 0:
            return None
        calls += max(0.0, more - ended[pid])
    return calls


def _members(
    before: ProcessReading, after: ProcessReading
) -> Iterator[tuple[int, ProcessCounters | None, ProcessCounters]]:
    """Yield (pid, then or None, now) of survivors and newcomers.

    A process that is older than the reading in which it was missing was only
    overlooked (the kernel's list of children is not a snapshot): it counts from now on.
    """
    for pid, now in after.processes.items():
        was = _same(pid, before, now)
        if was is not None or now.started_s >= before.uptime_s - TICK_S:
            yield pid, was, now


def _same(pid: int, before: ProcessReading, now: ProcessCounters) -> ProcessCounters | None:
    was = before.processes.get(pid)
    return was if was is not None and was.started_s == now.started_s else None


def _ended(
    before: ProcessReading, after: ProcessReading, last_seen: Mapping[int, float]
) -> defaultdict[int, float]:
    """Return, for each surviving pid, what was last seen of the ended processes nearest below it."""
    alive = {pid for pid, now in after.processes.items() if _same(pid, before, now) is not None}
    totals: defaultdict[int, float] = defaultdict(float)
    for pid, process in before.processes.items():
        if pid in alive:
            continue
        ancestor = process.parent_pid
        while ancestor not in alive and ancestor in before.processes:
            ancestor = before.processes[ancestor].parent_pid
        totals[ancestor] += last_seen[pid]
    return totals


def _beyond_the_machine(spent_s: float, before: ProcessReading, after: ProcessReading) -> bool:
    # A process that is reaped while the tree is being read can be counted twice, or a whole life late.
    # Where that shows (more than all cores can do, with rounding for each process), it is no figure.
    if after.machine_cores is None:
        return False
    rounding_s = TICK_S * 2 * (len(after.processes) + len(before.processes))
    return spent_s > after.machine_cores * (after.at_s - before.at_s) + rounding_s
