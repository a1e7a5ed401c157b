"""The process scope: from two readings of a process and its descendants to their sample.

Pure. T is the time between the readings:

    cpu = CPU seconds spent / T / cores          mem = sum of resident pages / memory of the machine
    io  = read and write calls / T / --io-capacity if given; net is not counted by process

Processes start and end between the readings. The parent's "reaped" counters get
all CPU time of a child that it waits for. So a child's time is counted once if the last
known time of ended children is subtracted from their nearest surviving ancestor's reaped time:

    spent = sum over survivors of  (own' - own) + max(0, (reaped' - reaped) - last seen of the ended below it)
          + sum over newcomers of  own' + reaped'

The max: no reaped counter has the time of a child without a waiting parent (SIGCHLD ignored) or of one
adopted by init; its last known time counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from steelyard_agent.evidence import MAX_CPU_UTILIZATION, Evidence, share, unmeasured
from steelyard_agent.sample import Indicators, Sample, first_known, from_evidence

# The kernel counts in ticks of 10 ms: so coarse are start times and CPU times.
TICK_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCounters:
    """One process of a tree.

    (pid, `started_s`) distinguishes it from a later process of the same pid; the root's `parent_pid` is 0.
    `cpu_s` is its own time; `reaped_cpu_s` is that of its waited-for children,
    and of theirs. `io_calls` (read and write calls) includes its reaped children's.
    """

    parent_pid: int
    started_s: float
    cpu_s: float
    reaped_cpu_s: float
    rss_bytes: int
    io_calls: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReading:
    """A process and all its descendants, by pid.

    `at_s` is monotonic; `uptime_s` is the same instant on the clock of
    `ProcessCounters.started_s` (seconds since boot). `cores` are those of the process's
    affinity, `machine_cores` the machine's, `quota_cores` the limit of its
    control groups (None: no limit). `sources` are how the process was
    found and where it is read.
    """

    at_s: float
    uptime_s: float
    root_pid: int
    name: str
    processes: Mapping[int, ProcessCounters]
    cores: int | None
    machine_cores: int | None
    memory_total_bytes: int | None
    quota_cores: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def up_s(self) -> float:
        """Return the running time of the tree's root."""
        return max(0.0, self.uptime_s - self.processes[self.root_pid].started_s)

    @property
    def root(self) -> tuple[int, float]:
        """Identify the process at the root of the tree: a restarted one is another."""
        return self.root_pid, self.processes[self.root_pid].started_s


def sample(
    before: ProcessReading, after: ProcessReading, interval_s: float, limits: Indicators
) -> Sample | None:
    """Return the tree's sample; None when the later reading is of another process."""
    if before.root != after.root:
        return None
    cores = first_known(after.cores, after.machine_cores)
    held = after.quota_cores is not None and (cores is None or after.quota_cores < cores)
    capacity = Indicators(
        cpu=first_known(limits.cpu, after.quota_cores if held else cores),
        net=limits.net,
        io=limits.io,
        mem=first_known(limits.mem, after.memory_total_bytes),
    )
    spent_s = cpu_spent_s(before, after)
    tree = f"{after.sources.get('tree', 'process')} ({after.name}) and {len(after.processes) - 1} below it"
    return from_evidence(
        interval_s,
        capacity,
        [
            share(
                "cpu",
                None if spent_s is None else spent_s / interval_s,
                capacity.cpu,
                "cores",
                high=MAX_CPU_UTILIZATION,
                sources=(tree, after.sources.get("target"), _cpu_source(limits, held=held)),
            ),
            unmeasured("net", "the kernel does not count it by process"),
            _io(before, after, interval_s, limits.io),
            share(
                "mem",
                sum(process.rss_bytes for process in after.processes.values()),
                capacity.mem,
                "bytes",
                sources=(
                    "/proc/<pid>/statm",
                    "--mem-limit" if limits.mem else "the machine's memory",
                ),
                note="pages shared by processes are counted for each of them: an upper bound",
            ),
        ],
    )


def _cpu_source(limits: Indicators, *, held: bool) -> str:
    if limits.cpu:
        return "--cpu-limit"
    return "the quota of its control group" if held else "CPU affinity"


def _io(before: ProcessReading, after: ProcessReading, interval_s: float, given: float | None) -> Evidence:
    if not given:
        return unmeasured("io", "counted only against --io-capacity")
    calls = io_calls(before, after)
    calls_per_s = None if calls is None else calls / interval_s
    return share("io", calls_per_s, given, "calls/s", sources=("/proc/<pid>/io", "--io-capacity"))


def cpu_spent_s(before: ProcessReading, after: ProcessReading) -> float | None:
    """Return the tree's CPU seconds, or None if the counters contradict each other."""
    ended = _ended(before, after, {pid: p.cpu_s + p.reaped_cpu_s for pid, p in before.processes.items()})
    spent = 0.0
    for pid, earlier, now in _members(before, after):
        if earlier is None:
            spent += now.cpu_s + now.reaped_cpu_s
            continue
        own, reaped = now.cpu_s - earlier.cpu_s, now.reaped_cpu_s - earlier.reaped_cpu_s
        if own < 0 or reaped < 0:
            return None
        spent += own + max(0.0, reaped - ended[pid])
    return None if _beyond_the_machine(spent, before, after) else spent


def io_calls(before: ProcessReading, after: ProcessReading) -> float | None:
    """Return the number of the tree's read and write calls, or None if a member's is unreadable."""
    everyone = [*before.processes.values(), *after.processes.values()]
    if any(process.io_calls is None for process in everyone):
        return None
    ended = _ended(before, after, {pid: p.io_calls or 0 for pid, p in before.processes.items()})
    calls = 0.0
    for pid, earlier, now in _members(before, after):
        more = (now.io_calls or 0) - (earlier.io_calls or 0 if earlier else 0)
        if more < 0:
            return None
        calls += max(0.0, more - ended[pid])
    return calls


def _members(
    before: ProcessReading, after: ProcessReading
) -> Iterator[tuple[int, ProcessCounters | None, ProcessCounters]]:
    """Yield (pid, then or None, now) of survivors and newcomers.

    A process older than the reading that missed it was only
    overlooked (the kernel's list of children is not a snapshot): it counts from now on.
    """
    for pid, now in after.processes.items():
        earlier = _same(pid, before, now)
        if earlier is not None or now.started_s >= before.uptime_s - TICK_S:
            yield pid, earlier, now


def _same(pid: int, before: ProcessReading, now: ProcessCounters) -> ProcessCounters | None:
    earlier = before.processes.get(pid)
    return earlier if earlier is not None and earlier.started_s == now.started_s else None


def _ended(
    before: ProcessReading, after: ProcessReading, last_seen: Mapping[int, float]
) -> defaultdict[int, float]:
    """Return, for each surviving pid, the last known time of the ended processes nearest below it."""
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
    # A process reaped while the tree is being read can be counted twice, or a whole life late. If that shows
    # (more than all cores can do, with rounding for each process), there is no figure.
    if after.machine_cores is None:
        return False
    rounding_s = TICK_S * 2 * (len(after.processes) + len(before.processes))
    return spent_s > after.machine_cores * (after.at_s - before.at_s) + rounding_s
