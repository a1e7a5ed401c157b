"""Samples: utilizations between two readings, and the capacities they are a share of.

Pure. Averages over the interval T between the readings:

    cpu = busy seconds / (T x cores)             mem = used / total, at the later reading
    net, io: see `devices`                       a control group: see `group`

A limit that is given takes the place of the measured capacity. What cannot be
measured, and a counter that went backwards, is None for that column: never a guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard_agent import devices, group, process_tree
from steelyard_agent.devices import rate
from steelyard_agent.evidence import Evidence, nothing, share
from steelyard_agent.reading import CgroupReading, HostReading, ProcessReading, Reading

# Beyond that a CPU figure is a broken reader's; the wire format refuses it.
MAX_CPU_UTILIZATION = 64.0

# The wire format's bounds of an interval. After an hour's pause an average says nothing about now.
MIN_INTERVAL_S = 0.001
MAX_INTERVAL_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Indicators:
    """One value for each indicator; None is "not measured" (in limits: "not given")."""

    cpu: float | None = None
    net: float | None = None
    io: float | None = None
    mem: float | None = None


NOTHING = Indicators()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Utilizations of an interval, and the capacities: cores, bytes/s, operations/s, bytes.

    `evidence` says where the utilizations came from, with extras that are not sent.
    """

    interval_s: float
    utilization: Indicators
    capacity: Indicators
    evidence: tuple[Evidence, ...] = field(default=(), compare=False)


def take(before: Reading, after: Reading, limits: Indicators) -> Sample | None:
    """Return the sample between two readings; None when they do not span an interval of one subject."""
    interval_s = after.at_s - before.at_s
    if not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
        return None
    match before, after:
        case HostReading(), HostReading():
            return _host(before, after, interval_s, limits)
        case CgroupReading(), CgroupReading() if before.identity == after.identity:
            return _cgroup(before, after, interval_s, limits)
        case ProcessReading(), ProcessReading() if before.root == after.root:
            return _process(before, after, interval_s, limits)
    return None


def _host(before: HostReading, after: HostReading, interval_s: float, limits: Indicators) -> Sample:
    memory, sources = after.memory, after.sources
    capacity = Indicators(
        cpu=_first(limits.cpu, after.cores),
        net=_first(limits.net, devices.fastest(after.nics)),
        io=limits.io,
        mem=_first(limits.mem, memory.total_bytes if memory else None),
    )
    busy = rate(before.cpu_busy_s, after.cpu_busy_s, interval_s)
    used = memory.total_bytes - memory.available_bytes if memory else None
    cores = "--cpu-limit" if limits.cpu else sources.get("cores")
    return _sample(
        interval_s,
        capacity,
        [
            _cpu(busy, capacity.cpu, sources.get("cpu"), cores),
            devices.net(before.nics, after.nics, interval_s, limits.net, sources),
            devices.io(before.disks, after.disks, interval_s, sources),
            share(
                "mem",
                used,
                capacity.mem,
                "bytes",
                sources=(sources.get("mem"), "--mem-limit" if limits.mem else None),
                note="all but what the kernel can take back at once (MemTotal - MemAvailable)",
            ),
            *_pressure(before.stalled_s, after.stalled_s, interval_s, sources.get("psi")),
        ],
    )


def _cgroup(before: CgroupReading, after: CgroupReading, interval_s: float, limits: Indicators) -> Sample:
    capacity = Indicators(
        cpu=_first(limits.cpu, group.cores(after)),
        net=_first(limits.net, devices.fastest(after.nics)),
        io=limits.io,
        mem=_first(limits.mem, group.memory_bytes(after)),
    )
    return _sample(
        interval_s,
        capacity,
        [
            group.cpu(before, after, interval_s, limits.cpu, MAX_CPU_UTILIZATION),
            devices.net(before.nics, after.nics, interval_s, limits.net, after.sources),
            group.io(before, after, interval_s, limits.io),
            group.memory(after, limits.mem),
            *group.throttled(before, after, interval_s),
            *_pressure(before.stalled_s, after.stalled_s, interval_s, after.sources.get("psi")),
        ],
    )


def _process(before: ProcessReading, after: ProcessReading, interval_s: float, limits: Indicators) -> Sample:
    capacity = Indicators(
        cpu=_first(limits.cpu, after.cores, after.machine_cores),
        net=limits.net,
        io=limits.io,
        mem=_first(limits.mem, after.memory_total_bytes),
    )
    spent_s = process_tree.cpu_spent_s(before, after)
    calls = process_tree.io_calls(before, after) if limits.io else None
    tree = f"{after.sources.get('tree', 'process')} ({after.name}) and {len(after.processes) - 1} below it"
    found = after.sources.get("found")
    affinity = "--cpu-limit" if limits.cpu else "CPU affinity"
    io = nothing("io", "counted only against --io-capacity")
    if limits.io:
        rate_s = None if calls is None else calls / interval_s
        io = share("io", rate_s, limits.io, "calls/s", sources=("/proc/<pid>/io", "--io-capacity"))
    return _sample(
        interval_s,
        capacity,
        [
            _cpu(None if spent_s is None else spent_s / interval_s, capacity.cpu, tree, found, affinity),
            nothing("net", "the kernel does not count it by process"),
            io,
            share(
                "mem",
                sum(process.rss_bytes for process in after.processes.values()),
                capacity.mem,
                "bytes",
                sources=("/proc/<pid>/stat (rss)", "--mem-limit" if limits.mem else "the machine's memory"),
                note="pages that processes share are counted for each of them: an upper bound",
            ),
        ],
    )


def _sample(interval_s: float, capacity: Indicators, evidence: Sequence[Evidence]) -> Sample:
    value = {one.indicator: one.value for one in evidence}
    utilization = Indicators(cpu=value["cpu"], net=value["net"], io=value["io"], mem=value["mem"])
    return Sample(interval_s=interval_s, utilization=utilization, capacity=capacity, evidence=tuple(evidence))


def _cpu(used: float | None, cores: float | None, *sources: str | None) -> Evidence:
    return share("cpu", used, cores, "cores", high=MAX_CPU_UTILIZATION, sources=sources)


def _pressure(
    before: Mapping[str, float], after: Mapping[str, float], interval_s: float, source: str | None
) -> list[Evidence]:
    """Return the machine's pressure: shown, not sent."""
    note = "the machine's: the share of time in which some task waited"
    return [
        share(
            f"psi {name}",
            rate(before[name], after[name], interval_s),
            1.0,
            "stalled s/s",
            sources=(f"{source}/{name}",),
            note=note,
        )
        for name in after
        if name in before
    ]


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value), None)
