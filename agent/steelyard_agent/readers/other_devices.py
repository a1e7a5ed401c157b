"""Cores, disks and NICs of platforms other than Linux, as far as psutil has them.

I/O only. For macOS, FreeBSD and Windows, and never run on them: tests have a stand-in for each.
"""

import sys
from collections.abc import Mapping

import psutil

from steelyard_agent.kernel_text import BYTES_PER_S_IN_A_MEGABIT
from steelyard_agent.scopes.machine_utilization import DiskCounters, NicKind

SOURCES = {
    "cpu": "psutil.cpu_times",
    "cores": "psutil.cpu_count",
    "mem": "psutil.virtual_memory",
    "net": "psutil.net_io_counters",
    "speed": "psutil.net_if_stats (a NIC without a speed is taken for a virtual one)",
    "io": "psutil.disk_io_counters (busy_time)",
}


class OtherDevices:
    """The devices of this machine; every method may raise. `lacking` has the reason for a missing column."""

    sources: Mapping[str, str] = SOURCES

    def __init__(self) -> None:
        self.lacking = {"psi": f"{sys.platform} does not count pressure"}
        if not psutil.FREEBSD:  # of the three, psutil has a disk's busy time there only
            self.lacking["io"] = f"{sys.platform} does not count how long a disk is busy"

    def cores(self) -> int | None:
        """Return how many cores there are."""
        return psutil.cpu_count()

    def whole_disks(self) -> dict[str, str]:
        """Return the disks that count, by name, without a number; FreeBSD's list has no partitions."""
        return (
            {}
            if "io" in self.lacking
            else dict.fromkeys(psutil.disk_io_counters(perdisk=True, nowrap=False), "")
        )

    def disks(self) -> dict[str, DiskCounters]:
        """Return the busy time of each disk, if it is counted."""
        if "io" in self.lacking:
            return {}
        counted = psutil.disk_io_counters(perdisk=True, nowrap=False)
        return {name: DiskCounters(busy_s=disk.busy_time / 1000) for name, disk in counted.items()}

    def reclaimable_bytes(self, used_bytes: int) -> int:
        """Return no bytes: psutil's available memory is all there is."""
        del used_bytes
        return 0

    def nic(self, name: str) -> tuple[NicKind, float | None]:
        """Return the kind of a NIC, and its speed in bytes/s."""
        nic = psutil.net_if_stats().get(name)
        # Windows has no flags; its loopback is called so.
        if "loopback" in name.lower() or (nic is not None and "loopback" in nic.flags.split(",")):
            return "loopback", None
        if nic is None or not nic.speed:
            return "virtual", None
        return "hardware", nic.speed * BYTES_PER_S_IN_A_MEGABIT

    def stalled_s(self) -> dict[str, float]:
        """Return no pressure."""
        return {}
