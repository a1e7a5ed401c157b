"""Linux's cores, whole disks, kinds and speeds of NICs, and pressure, from /proc and /sys.

I/O only; `kernel_text` parses the text. psutil has no pressure, and its other figures differ:

- cores come from the C library, and musl counts only those that the agent itself may run on;
- disks include partitions and devices stacked on other disks, which repeat them;
- speeds come from the driver, and a bridge, bond, tunnel or veth invents its own.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from steelyard_agent import kernel_text
from steelyard_agent.readers import reclaimable_memory
from steelyard_agent.readers.files import below, exists, read, read_or_none
from steelyard_agent.scopes.machine_utilization import DiskCounters, NicKind

SOURCES = {
    "cpu": "/proc/stat",
    "cores": "/sys/devices/system/cpu/online",
    "mem": "/proc/meminfo (MemTotal - MemAvailable), zfs/arcstats",
    "net": "/proc/net/dev",
    "speed": "/sys/class/net/*/speed",
    "io": "/proc/diskstats",
    "psi": "/proc/pressure",
}

RESOURCES = ("cpu", "memory", "io")

IFF_LOOPBACK = 0x8  # linux/if.h


class LinuxDevices:
    """The devices below `root`; every method may raise."""

    sources: Mapping[str, str] = SOURCES
    lacking: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        self._root = root

    def cores(self) -> int | None:
        """Return how many cores are online."""
        return kernel_text.parse_cpu_list(read(below(self._root, "/sys/devices/system/cpu/online")))

    def whole_disks(self) -> dict[str, str]:
        """Return the device numbers (such as 8:0) of the whole disks, by name."""
        # Partitions are not in /sys/block; dm, md, loop, ram and zram have no device behind them.
        # sysfs writes a "/" in a device's name as "!".
        folder = below(self._root, "/sys/block")
        disks = [name for name in os.listdir(folder) if exists(f"{folder}/{name}/device")]  # noqa: PTH208
        return {
            name.replace("!", "/"): (read_or_none(f"{folder}/{name}/dev") or b"").strip().decode()
            for name in disks
        }

    def reclaimable_bytes(self, used_bytes: int) -> int:
        """Return the used bytes that the kernel gives back, and MemAvailable does not count."""
        return reclaimable_memory.reclaimable_bytes(self._root, used_bytes)

    def disks(self) -> dict[str, DiskCounters]:
        """Return the counters of all devices; psutil has no discards, and no requests in flight."""
        counted = kernel_text.parse_diskstats(read(below(self._root, "/proc/diskstats")))
        return {
            name: DiskCounters(busy_s=busy_ms / 1000, requests_s=requests_ms / 1000, in_flight=in_flight)
            for name, (busy_ms, requests_ms, in_flight) in counted.items()
        }

    def nic(self, name: str) -> tuple[NicKind, float | None]:
        """Return the kind of a NIC, and its speed in bytes/s."""
        folder = below(self._root, f"/sys/class/net/{name}")
        flags = read_or_none(f"{folder}/flags")
        if name == "lo" or (flags is not None and int(flags, 16) & IFF_LOOPBACK):
            return "loopback", None
        if not exists(f"{folder}/device"):
            # Its speed would be a made-up one (veth 10 Gbit/s, tun 10 Mbit/s).
            return "virtual", None
        speed = read_or_none(f"{folder}/speed")  # EINVAL while the link is down
        return "hardware", None if speed is None else kernel_text.parse_speed(speed)

    def stalled_s(self) -> dict[str, float]:
        """Return the machine's pressure by resource; nothing if the kernel has none."""
        texts = {name: read_or_none(below(self._root, f"/proc/pressure/{name}")) for name in RESOURCES}
        return {name: kernel_text.parse_stalled_s(text) for name, text in texts.items() if text is not None}
