"""The cgroup scope: from two readings of a control group to its sample.

Pure. A limit on a group holds all of the group's content, so each limit is
compared with the use at its own level. The level nearest to its limit counts:

    cpu = max over levels of  CPU seconds / T / min(quota, CPUs of the cpuset, cores of the machine)
    mem = max over levels of  (usage - inactive file cache) / min(limit, memory of the machine)
    io  = operations / T / --io-capacity if given, else seconds with some waiting task / T
    net: the busiest NIC, see `machine_utilization`
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from steelyard_agent.evidence import MAX_CPU_UTILIZATION, Evidence, rate, share, unmeasured
from steelyard_agent.sample import Indicators, Sample, first_known, from_evidence
from steelyard_agent.scopes import machine_utilization
from steelyard_agent.scopes.machine_utilization import MemoryGauge, NicCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A group with a count: CPU time, in seconds against cores, or memory, in bytes.

    `used` memory is without the inactive file cache; `limit` is None if this group has none.
    """

    path: str
    used: float | None
    limit: float | None
    used_file: str = ""
    limit_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """How often a group used up its quota before a period was over, and how long it then stood still."""

    periods: int
    throttled_periods: int
    throttled_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupReading:
    """A control group: a container, or a systemd unit.

    `identity` distinguishes it from a later group of the same name with new
    counters. The first level is the group itself; the others are its ancestors with a
    limit. `io_stalled_s` is the group's own pressure; `stalled_s` the machine's
    by resource, which is only shown. `io_ops` are reads and writes by
    device. `up_s` is known for this process's own container. `sources` are the files of
    each column.
    """

    at_s: float
    identity: tuple[object, ...]
    name: str
    cpu: tuple[Level, ...]
    cpuset_cores: int | None
    machine_cores: int | None
    memory: tuple[Level, ...]
    machine_memory: MemoryGauge | None
    nics: Mapping[str, NicCounters] | None
    io_stalled_s: float | None
    io_ops: Mapping[str, int] | None
    throttling: Throttling | None = None
    up_s: float | None = None
    stalled_s: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


def tightest(limits: Iterable[float | None]) -> float | None:
    """Return the smallest known limit."""
    return min((limit for limit in limits if limit is not None), default=None)


def sample(
    before: CgroupReading, after: CgroupReading, interval_s: float, limits: Indicators
) -> Sample | None:
    """Return the group's sample; None when the later reading is of another group."""
    if before.identity != after.identity:
        return None
    cores = tightest([*(level.limit for level in after.cpu), _widest_cores(after)])
    memory_bytes = tightest([*(level.limit for level in after.memory), _machine_bytes(after)])
    capacity = Indicators(
        cpu=first_known(limits.cpu, cores),
        net=first_known(limits.net, machine_utilization.fastest_nic(after.nics)),
        io=limits.io,
        mem=first_known(limits.mem, memory_bytes),
    )
    return from_evidence(
        interval_s,
        capacity,
        [
            _cpu(before, after, interval_s, limits.cpu),
            machine_utilization.busiest_nic(before.nics, after.nics, interval_s, limits.net, after.sources),
            _io(before, after, interval_s, limits.io),
            _memory(after, limits.mem),
            *_throttled(before, after, interval_s),
            *machine_utilization.pressure(
                before.stalled_s, after.stalled_s, interval_s, after.sources.get("psi")
            ),
        ],
    )


def _cpu(before: CgroupReading, after: CgroupReading, interval_s: float, given: float | None) -> Evidence:
    """Return CPU as evidence; `given` cores replace all limits, and the group's own use counts."""
    used_before = {level.path: level.used for level in before.cpu}
    levels = after.cpu[:1] if given else after.cpu
    return _nearest("cpu", (_cpu_level(level, used_before, after, interval_s, given) for level in levels))


def _cpu_level(
    level: Level,
    used_before: dict[str, float | None],
    now: CgroupReading,
    interval_s: float,
    given: float | None,
) -> Evidence:
    used = rate(used_before.get(level.path), level.used, interval_s, now.machine_cores)
    ceiling = _widest_cores(now)
    limit = given or tightest([level.limit, ceiling])
    if given:
        what, source = "the given limit", "--cpu-limit"
    elif limit is not None and limit == level.limit:
        what, source = "its quota", level.limit_file
    elif now.cpuset_cores is not None and limit == now.cpuset_cores != now.machine_cores:
        what, source = "the CPUs of its cpuset", now.sources.get("cpuset", "")
    else:
        what, source = "no quota: the machine's cores", now.sources.get("cores", "")
    counted = "" if used is not None else "; its use is not counted, was reset, or is more than the machine's"
    note = f"{level.path}: {what}{counted}"
    files = (level.used_file, source)
    return share("cpu", used, limit, "cores", high=MAX_CPU_UTILIZATION, sources=files, note=note)


def _memory(now: CgroupReading, given: float | None) -> Evidence:
    """Return memory as evidence, at the later reading; `given` bytes replace all limits."""
    levels = now.memory[:1] if given else now.memory
    return _nearest("mem", (_memory_level(level, now, given) for level in levels))


def _memory_level(level: Level, now: CgroupReading, given: float | None) -> Evidence:
    used, files = level.used, (level.used_file, f"{level.path}/memory.stat")
    if used is None and now.machine_memory is not None and level.limit is None:
        # v2's topmost group counts nothing itself: it is the machine.
        used = now.machine_memory.used_bytes
        files = (now.sources.get("machine mem", ""), "")
    limit = given or tightest([level.limit, _machine_bytes(now)])
    if given:
        what, source = "the given limit", "--mem-limit"
    elif limit is not None and limit == level.limit:
        what, source = "its limit", level.limit_file
    else:
        what, source = "no limit: the machine's memory", now.sources.get("machine mem", "")
    note = f"{level.path}: {what}; use is without the inactive file cache"
    return share("mem", used, limit, "bytes", sources=(*files, source), note=note)


def _io(before: CgroupReading, after: CgroupReading, interval_s: float, given: float | None) -> Evidence:
    """Return IO as evidence: operations against a given capacity, or else the group's own IO pressure."""
    if given and before.io_ops is not None and after.io_ops is not None:
        # A group's line for a device appears with its first operation there.
        grown = [rate(before.io_ops.get(name, 0), now, interval_s) for name, now in after.io_ops.items()]
        if any(one is None for one in grown):
            return unmeasured("io", "a counter went backwards", (after.sources.get("ops"),))
        ops = sum(one or 0.0 for one in grown)
        return share("io", ops, given, "ops/s", sources=(after.sources.get("ops"), "--io-capacity"))
    stalled = rate(before.io_stalled_s, after.io_stalled_s, interval_s, 1.0)
    if stalled is None:
        why = "its operations are not counted here" if given else "give --io-capacity"
        return unmeasured("io", f"no IO pressure of its own here: {why}", (after.sources.get("ops"),))
    note = "the share of time with some task waiting for a disk"
    return share("io", stalled, 1.0, "stalled s/s", sources=(after.sources.get("stalled"),), note=note)


def _throttled(before: CgroupReading, after: CgroupReading, interval_s: float) -> list[Evidence]:
    """Return how often the quota held the group, if it has one: shown, not sent."""
    earlier, now = before.throttling, after.throttling
    if earlier is None or now is None:
        return []
    periods = rate(earlier.periods, now.periods, interval_s)
    held = rate(earlier.throttled_periods, now.throttled_periods, interval_s)
    stood_s = rate(earlier.throttled_s, now.throttled_s, interval_s, after.machine_cores)
    # Not "stood still for this long": v2 and v1 sum that over the cores.
    note = "" if stood_s is None else f"periods that were cut short; {stood_s:.3f} core s/s stood still"
    if not periods:  # nothing ran against a quota
        return []
    return [
        share("throttled", held, periods, "periods/s", sources=(after.sources.get("throttled"),), note=note)
    ]


def _nearest(indicator: str, levels: Iterable[Evidence]) -> Evidence:
    """Return the level nearest to its limit; one without a figure first, because it may be the nearest."""
    evidence = list(levels)
    if not evidence:
        return unmeasured(indicator, "no group counts it")
    return max(evidence, key=lambda one: float("inf") if one.value is None else one.value)


def _widest_cores(now: CgroupReading) -> float | None:
    return tightest([now.cpuset_cores, now.machine_cores])


def _machine_bytes(now: CgroupReading) -> float | None:
    return None if now.machine_memory is None else now.machine_memory.total_bytes
