"""Reads the counters of a machine: CPU time with stolen time, memory, NICs and disks. Both scopes use them.

I/O only. psutil reads the counters but those of disks, on Linux from the /proc at `psutil.PROCFS_PATH`.
`linux_devices` and `other_devices` choose the devices that count, and read disks and the NICs' speeds.
"""

from collections.abc import Mapping
from pathlib import Path

import psutil

from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.linux_devices import LinuxDevices
from steelyard_agent.readers.other_devices import OtherDevices
from steelyard_agent.scopes.machine_utilization import DiskCounters, MemoryGauge, NicCounters, NicKind

# Disks and NICs are plugged in and renegotiate their speed rarely, and asking costs
# as much as all the counters together: list them again once a minute.
DEVICE_LIST_AGE_S = 60.0

# Busy is time that no other work could use: neither idle nor waiting for a disk. Time that the hypervisor
# stole counts, too, and is read apart. Guest time is left out because Linux counts it in user and nice
# already, and Windows' interrupts because it counts them in system. A platform has only some of these.
BUSY_FIELDS = ("user", "nice", "system", "irq", "softirq")

# Facts about a platform's devices beyond psutil's.
Devices = LinuxDevices | OtherDevices


def devices_below(root: Path) -> Devices:
    """Return the devices of this platform; `root` is the parent of Linux's /sys."""
    return LinuxDevices(root) if psutil.LINUX else OtherDevices()


class MachineCounters:
    """A machine's counters; every method may raise, and callers read them as columns.

    `disks` are the device numbers (such as 8:0) of the whole disks, by name.
    """

    def __init__(self, devices: Devices, columns: ColumnReader) -> None:
        self.devices = devices
        self._columns = columns
        self.disks: Mapping[str, str] = {}
        self._nics: dict[str, tuple[NicKind, float | None]] = {}
        self._listed_at_s: float | None = None

    def refresh(self, at_s: float) -> None:
        """List the devices again, if the last list is too old; a clock that stepped back counts as old."""
        if self._listed_at_s is not None and 0 <= at_s - self._listed_at_s < DEVICE_LIST_AGE_S:
            return
        self._listed_at_s = at_s
        self.disks = self._columns.read("the list of disks", self.devices.whole_disks) or {}
        self._nics = {}  # a NIC's kind and speed are read when it is first counted

    def cpu_s(self) -> tuple[float, float]:
        """Return the seconds all cores together were busy, and those that were stolen from them."""
        times = psutil.cpu_times()
        return sum(getattr(times, field, 0.0) for field in BUSY_FIELDS), getattr(times, "steal", 0.0)

    def memory(self) -> MemoryGauge:
        """Return the machine's memory."""
        memory = psutil.virtual_memory()
        gauge = MemoryGauge(total_bytes=memory.total, available_bytes=memory.available)
        reclaimable = self.devices.reclaimable_bytes(gauge.used_bytes)
        return MemoryGauge(total_bytes=memory.total, available_bytes=memory.available + reclaimable)

    def nics(self) -> dict[str, NicCounters]:
        """Return every NIC of this network namespace."""
        counters = {}
        # nowrap would guess the loss of a counter that went backwards, and keep it for ever.
        for name, counted in psutil.net_io_counters(pernic=True, nowrap=False).items():
            if name not in self._nics:
                self._nics[name] = self.devices.nic(name)
            kind, bytes_per_s = self._nics[name]
            counters[name] = NicCounters(
                kind=kind, rx_bytes=counted.bytes_recv, tx_bytes=counted.bytes_sent, bytes_per_s=bytes_per_s
            )
        return counters

    def whole_disks(self) -> dict[str, DiskCounters]:
        """Return the counters of each whole disk, if they are counted."""
        return {name: disk for name, disk in self.devices.disks().items() if name in self.disks}
