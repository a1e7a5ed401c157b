"""Readings: raw counters at one instant, before any arithmetic.

Pure. What a reader could not read is None; everything else only ever counts
up (except the memory gauges), and a sample is the difference of two readings.
`sources` are the files that each column came from; `stalled_s` is pressure (PSI),
seconds in which some task waited, by resource: read only to be shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NicKind = Literal["hardware", "virtual", "loopback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NicCounters:
    """One network interface. `bytes_per_s` is its speed, None where the kernel does not know it."""

    kind: NicKind
    rx_bytes: int
    tx_bytes: int
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """One block device. `whole` is false for partitions and for what is stacked on others (dm, md, loop)."""

    whole: bool
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGauge:
    """The machine's memory; `available_bytes` counts what the kernel can reclaim at once."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """A whole machine. `at_s` is monotonic; `cpu_busy_s` sums over the cores."""

    at_s: float
    cores: int | None
    cpu_busy_s: float | None
    memory: MemoryGauge | None
    nics: Mapping[str, NicCounters] | None
    disks: Mapping[str, DiskCounters] | None
    stalled_s: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLevel:
    """A group that CPU time is counted for. `quota_cores` is None where none is set on it."""

    path: str
    used_s: float | None
    quota_cores: float | None
    used_file: str = ""
    limit_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevel:
    """A group that memory is counted for; `used_bytes` is without the inactive file cache."""

    path: str
    used_bytes: float | None
    limit_bytes: float | None
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

    `identity` tells it from a later group of the same name, whose counters begin
    again. The first level is the group itself; the others are those above it that
    have a limit. `io_stalled_s` is the group's own pressure; `io_ops` are reads
    and writes by device.
    """

    at_s: float
    identity: tuple[object, ...]
    name: str
    cpu: tuple[CpuLevel, ...]
    cpuset_cores: int | None
    machine_cores: int | None
    memory: tuple[MemoryLevel, ...]
    machine_memory: MemoryGauge | None
    nics: Mapping[str, NicCounters] | None
    io_stalled_s: float | None
    io_ops: Mapping[str, int] | None
    throttling: Throttling | None = None
    stalled_s: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCounters:
    """One process of a tree.

    (pid, `started_s`) tells it from a later process of the same pid. `cpu_s`
    is its own time; `reaped_cpu_s` is that of the children it has waited for,
    and of theirs. `io_calls` (read and write calls) has its reaped children's in it.
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
    `ProcessCounters.started_s` (seconds since boot). `cores` are those the
    process may use, `machine_cores` all there are.
    """

    at_s: float
    uptime_s: float
    root_pid: int
    name: str
    processes: Mapping[int, ProcessCounters]
    cores: int | None
    machine_cores: int | None
    memory_total_bytes: int | None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> tuple[int, float]:
        """Identify the process at the root of the tree: a restarted one is another."""
        return self.root_pid, self.processes[self.root_pid].started_s


@dataclass(frozen=True, slots=True)
class Absent:
    """What was to be read is not there (yet); `why` is a sentence for a person."""

    why: str


Reading = HostReading | CgroupReading | ProcessReading
