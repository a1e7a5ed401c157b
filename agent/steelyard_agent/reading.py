"""Readings: raw counters at one instant, before any arithmetic.

Pure. What a reader could not read is None; everything else only ever counts
up (except the memory gauges), and a sample is the difference of two readings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def root(self) -> tuple[int, float]:
        """Identify the process at the root of the tree: a restarted one is another."""
        return self.root_pid, self.processes[self.root_pid].started_s


@dataclass(frozen=True, slots=True)
class Absent:
    """What was to be read is not there (yet); `why` is a sentence for a person."""

    why: str


Reading = HostReading | ProcessReading
