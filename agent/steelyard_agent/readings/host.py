"""The host scope: a whole machine, bare metal or virtual, as psutil sees it.

I/O only. Inside a container these are the host's figures, not the container's.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from steelyard_agent.reading import DiskCounters, HostReading, MemoryGauge, NicCounters, NicKind
from steelyard_agent.readings.columns import Columns

# Disks and NICs are plugged in and renegotiate their speed rarely, and asking costs
# as much as all the counters together: look again once a minute.
HARDWARE_AGE_S = 60.0

BYTES_PER_S_IN_A_MEGABIT = 125_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nic:
    kind: NicKind
    bytes_per_s: float | None


class HostReader:
    """Reads the machine's counters; `sys` is where sysfs is."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, sys: Path = Path("/sys")) -> None:
        self._clock = clock
        self._sys = sys
        self._columns = Columns()
        self._disks: frozenset[str] = frozenset()
        self._nics: dict[str, _Nic] = {}
        self._looked_at_s: float | None = None

    def __call__(self) -> HostReading:
        """Read every column there is; never raises."""
        at_s = self._clock()
        if self._looked_at_s is None or at_s - self._looked_at_s >= HARDWARE_AGE_S:
            self._disks = self._columns.read("the list of disks", self._whole_disks) or frozenset()
            self._nics = self._columns.read("the list of NICs", self._nic_kinds) or {}
            self._looked_at_s = at_s
        return HostReading(
            at_s=at_s,
            cores=psutil.cpu_count(),
            cpu_busy_s=self._columns.read("cpu", _cpu_busy_s),
            memory=self._columns.read("memory", _memory),
            nics=self._columns.read("net", self._nic_counters),
            disks=self._columns.read("io", self._disk_counters),
        )

    def _nic_counters(self) -> dict[str, NicCounters]:
        # nowrap: psutil would hide a counter that went backwards; a sample must know.
        return {
            name: NicCounters(
                kind=self._nics[name].kind,
                rx_bytes=counters.bytes_recv,
                tx_bytes=counters.bytes_sent,
                bytes_per_s=self._nics[name].bytes_per_s,
            )
            for name, counters in psutil.net_io_counters(pernic=True, nowrap=False).items()
            if name in self._nics
        }

    def _disk_counters(self) -> dict[str, DiskCounters]:
        return {
            name: DiskCounters(whole=name in self._disks, busy_s=counters.busy_time / 1000)
            for name, counters in psutil.disk_io_counters(perdisk=True, nowrap=False).items()
        }

    def _whole_disks(self) -> frozenset[str]:
        # Partitions are not in /sys/block; dm, md, loop, ram and zram have no device behind them.
        # sysfs writes a "/" in a device's name as "!".
        folder = self._sys / "block"
        return frozenset(
            disk.name.replace("!", "/") for disk in folder.iterdir() if (disk / "device").exists()
        )

    def _nic_kinds(self) -> dict[str, _Nic]:
        return {
            name: self._nic(name, stats.speed, stats.flags) for name, stats in psutil.net_if_stats().items()
        }

    def _nic(self, name: str, megabits_per_s: int, flags: str) -> _Nic:
        if name == "lo" or "loopback" in flags.split(","):
            return _Nic(kind="loopback", bytes_per_s=None)
        if not (self._sys / "class/net" / name / "device").exists():
            # A bridge, bond, tunnel or veth states a made-up speed (veth 10 Gbit/s, tun 10 Mbit/s).
            return _Nic(kind="virtual", bytes_per_s=None)
        bytes_per_s = megabits_per_s * BYTES_PER_S_IN_A_MEGABIT if megabits_per_s > 0 else None
        return _Nic(kind="hardware", bytes_per_s=bytes_per_s)


def _cpu_busy_s() -> float:
    # Time stolen by the hypervisor counts as busy: it is not there for more work.
    # Guest time is left out because Linux counts it in user and nice already.
    times = psutil.cpu_times()
    names = ("user", "nice", "system", "irq", "softirq", "steal")
    return sum(float(getattr(times, name, 0.0)) for name in names)


def _memory() -> MemoryGauge:
    memory = psutil.virtual_memory()
    return MemoryGauge(total_bytes=memory.total, available_bytes=memory.available)
