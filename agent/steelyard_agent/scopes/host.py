"""The host scope: from two readings of a whole machine to its sample.

Pure. Averages over the interval T between the readings:

    cpu = (busy + stolen seconds) / (T x cores)      mem = (total - available) / total, at the later reading
    net, io: the busiest NIC and disk, see `machine_utilization`
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard_agent.evidence import MAX_CPU_UTILIZATION, rate, share, unmeasured
from steelyard_agent.sample import Indicators, Sample, first_known, from_evidence
from steelyard_agent.scopes import machine_utilization
from steelyard_agent.scopes.machine_utilization import DiskCounters, MemoryGauge, NicCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """A whole machine. `at_s` is monotonic; `cpu_busy_s` and `cpu_stolen_s` sum over the cores.

    `cpu_stolen_s`, which the hypervisor gave to others, is not in `cpu_busy_s`. It may fall when the machine
    moves to another host. `disks` are the whole ones: partitions and devices stacked on disks (dm, md, loop)
    repeat their time. `stalled_s` is pressure (PSI), seconds with some waiting task, by resource: only
    shown. `up_s` is the time since its boot. `sources` are the files of each column, and `lacking` is
    the reason if the platform has none.
    """

    at_s: float
    cores: int | None
    cpu_busy_s: float | None
    cpu_stolen_s: float = 0.0
    memory: MemoryGauge | None
    nics: Mapping[str, NicCounters] | None
    disks: Mapping[str, DiskCounters] | None
    up_s: float | None = None
    stalled_s: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)


def sample(before: HostReading, after: HostReading, interval_s: float, limits: Indicators) -> Sample:
    """Return the machine's sample."""
    memory, sources = after.memory, after.sources
    capacity = Indicators(
        cpu=first_known(limits.cpu, after.cores),
        net=first_known(limits.net, machine_utilization.fastest_nic(after.nics)),
        io=limits.io,
        mem=first_known(limits.mem, memory.total_bytes if memory else None),
    )
    return from_evidence(
        interval_s,
        capacity,
        [
            share(
                "cpu",
                _cores_in_use(before, after, interval_s),
                capacity.cpu,
                "cores",
                high=MAX_CPU_UTILIZATION,
                sources=(sources.get("cpu"), "--cpu-limit" if limits.cpu else sources.get("cores")),
            ),
            machine_utilization.busiest_nic(before.nics, after.nics, interval_s, limits.net, sources),
            machine_utilization.busiest_disk(before.disks, after.disks, interval_s, sources)
            if "io" not in after.lacking
            else unmeasured("io", after.lacking["io"]),
            share(
                "mem",
                memory.used_bytes if memory else None,
                capacity.mem,
                "bytes",
                sources=(sources.get("mem"), "--mem-limit" if limits.mem else None),
                note="all but the memory that the kernel can reclaim at once",
            ),
            *machine_utilization.pressure(before.stalled_s, after.stalled_s, interval_s, sources.get("psi")),
            *(unmeasured(name, why) for name, why in after.lacking.items() if name != "io"),
        ],
    )


def _cores_in_use(before: HostReading, after: HostReading, interval_s: float) -> float | None:
    """Return the cores that were busy or stolen; a stolen time that fell hides nothing else."""
    most = None if after.cores is None else float(after.cores)
    busy = rate(before.cpu_busy_s, after.cpu_busy_s, interval_s, most)
    stolen = rate(before.cpu_stolen_s, after.cpu_stolen_s, interval_s, most)
    return None if busy is None else busy + (stolen or 0.0)
