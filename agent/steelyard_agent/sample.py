"""Samples: utilizations between two readings, and the capacities they are a share of.

Pure. Averages over the interval T between the readings:

    cpu = busy seconds / (T x cores)             mem = used / total, at the later reading
    net = max over NICs of max(rx, tx) / speed   io  = max over whole disks of busy seconds / T

A limit that is given takes the place of the measured capacity. What cannot be
measured, and a counter that went backwards, is None for that column: never a guess.
"""

from dataclasses import dataclass

from steelyard_agent import process_tree
from steelyard_agent.reading import DiskCounters, HostReading, NicCounters, ProcessReading, Reading

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
    """Utilizations of an interval, and the capacities: cores, bytes/s, operations/s, bytes."""

    interval_s: float
    utilization: Indicators
    capacity: Indicators


def take(before: Reading, after: Reading, limits: Indicators) -> Sample | None:
    """Return the sample between two readings; None when they do not span an interval of one subject."""
    interval_s = after.at_s - before.at_s
    if not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
        return None
    match before, after:
        case HostReading(), HostReading():
            return _host(before, after, interval_s, limits)
        case ProcessReading(), ProcessReading() if before.root == after.root:
            return _process(before, after, interval_s, limits)
    return None


def _host(before: HostReading, after: HostReading, interval_s: float, limits: Indicators) -> Sample:
    memory = after.memory
    capacity = Indicators(
        cpu=_first(limits.cpu, after.cores),
        net=_first(limits.net, _fastest(after)),
        io=limits.io,
        mem=_first(limits.mem, memory.total_bytes if memory else None),
    )
    utilization = Indicators(
        cpu=_cpu(_rate(before.cpu_busy_s, after.cpu_busy_s, interval_s), capacity.cpu),
        net=_net(before, after, interval_s, limits.net),
        io=_io(before, after, interval_s),
        mem=_share(memory.total_bytes - memory.available_bytes if memory else None, capacity.mem),
    )
    return Sample(interval_s=interval_s, utilization=utilization, capacity=capacity)


def _process(before: ProcessReading, after: ProcessReading, interval_s: float, limits: Indicators) -> Sample:
    capacity = Indicators(
        cpu=_first(limits.cpu, after.cores, after.machine_cores),
        net=limits.net,
        io=limits.io,
        mem=_first(limits.mem, after.memory_total_bytes),
    )
    spent_s = process_tree.cpu_spent_s(before, after)
    calls = process_tree.io_calls(before, after) if limits.io else None
    utilization = Indicators(
        cpu=_cpu(spent_s / interval_s if spent_s is not None else None, capacity.cpu),
        io=_share(calls / interval_s if calls is not None else None, limits.io),
        # Pages that the processes share are counted for each of them, so this is an upper bound.
        mem=_share(sum(process.rss_bytes for process in after.processes.values()), capacity.mem),
    )
    return Sample(interval_s=interval_s, utilization=utilization, capacity=capacity)


def _net(before: HostReading, after: HostReading, interval_s: float, given: float | None) -> float | None:
    """Return the most loaded NIC's utilization.

    None too when the NIC that moves the most bytes has no known speed: the
    others' figures would then hide the one that matters.
    """
    was, now = _counted_nics(before), _counted_nics(after)
    flows: list[tuple[float, float]] = []  # bytes/s and speed; 0 is an unknown speed
    for name in was.keys() & now.keys():
        rx = _rate(was[name].rx_bytes, now[name].rx_bytes, interval_s)
        tx = _rate(was[name].tx_bytes, now[name].tx_bytes, interval_s)
        if rx is None or tx is None:
            return None
        flows.append((max(rx, tx), given or now[name].bytes_per_s or 0.0))
    if not flows or max(flows)[1] == 0.0:
        return None
    return max(min(flow / speed, 1.0) for flow, speed in flows if speed)


def _counted_nics(reading: HostReading) -> dict[str, NicCounters]:
    # Bridges, bonds, tunnels and veths repeat the hardware's bytes; in a container they are all there is.
    nics = {name: nic for name, nic in (reading.nics or {}).items() if nic.kind != "loopback"}
    return {name: nic for name, nic in nics.items() if nic.kind == "hardware"} or nics


def _fastest(reading: HostReading) -> float | None:
    # Not the most loaded one's: a capacity that changes with the load would move the baseline weights.
    return max((nic.bytes_per_s for nic in _counted_nics(reading).values() if nic.bytes_per_s), default=None)


def _io(before: HostReading, after: HostReading, interval_s: float) -> float | None:
    was, now = _whole_disks(before), _whole_disks(after)
    busiest: float | None = None
    for name in was.keys() & now.keys():
        busy = _rate(was[name].busy_s, now[name].busy_s, interval_s)
        if busy is None:
            return None
        busiest = max(busiest or 0.0, min(busy, 1.0))
    return busiest


def _whole_disks(reading: HostReading) -> dict[str, DiskCounters]:
    return {name: disk for name, disk in (reading.disks or {}).items() if disk.whole}


def _rate(before: float | None, after: float | None, interval_s: float) -> float | None:
    if before is None or after is None or after < before:
        return None
    return (after - before) / interval_s


def _cpu(rate: float | None, cores: float | None) -> float | None:
    return min(rate / cores, MAX_CPU_UTILIZATION) if rate is not None and cores else None


def _share(value: float | None, capacity: float | None) -> float | None:
    return min(max(value / capacity, 0.0), 1.0) if value is not None and capacity else None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value), None)
