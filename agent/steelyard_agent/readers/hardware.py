"""NICs, disks, cores and memory of a machine, from /proc and /sys: what both host and cgroup scope read.

I/O only, Linux only. The text is parsed in `proc_text`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard_agent import proc_text
from steelyard_agent.readers.files import ColumnReader, below, exists, read, read_or_none
from steelyard_agent.scopes.hardware import DiskCounters, MemoryGauge, NicCounters, NicKind

# Disks and NICs are plugged in and renegotiate their speed rarely, and asking costs
# as much as all the counters together: list them again once a minute.
HARDWARE_AGE_S = 60.0

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
RESOURCES = ("cpu", "memory", "io")

IFF_LOOPBACK = 0x8  # linux/if.h


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nic:
    kind: NicKind
    bytes_per_s: float | None


class Hardware:
    """A machine's devices; every method may raise, and callers read them as columns."""

    def __init__(self, root: object, columns: ColumnReader) -> None:
        self._root = root
        self._columns = columns
        self._disks: Mapping[str, str] = {}
        self._nics: dict[str, _Nic] = {}
        self._listed_at_s: float | None = None

    def refresh(self, at_s: float) -> None:
        """List the devices again, if the last list is too old; a clock that stepped back counts as old."""
        if self._listed_at_s is not None and 0 <= at_s - self._listed_at_s < HARDWARE_AGE_S:
            return
        self._listed_at_s = at_s
        self._disks = self._columns.read("the list of disks", self._whole_disks) or {}
        self._nics = {}  # each one's kind is read when it is first counted

    @property
    def disks(self) -> Mapping[str, str]:
        """Return the device numbers (such as 8:0) of the whole disks, by name."""
        return self._disks

    def busy_s(self) -> float:
        """Return the seconds all cores together were busy."""
        return proc_text.parse_busy_ticks(self._read("/proc/stat")) / TICKS_PER_S

    def cores(self) -> int | None:
        """Return how many cores are online."""
        return proc_text.parse_cpu_list(self._read("/sys/devices/system/cpu/online"))

    def memory(self) -> MemoryGauge:
        """Return the machine's memory."""
        return proc_text.parse_memory(self._read("/proc/meminfo"))

    def nics(self) -> dict[str, NicCounters]:
        """Return every NIC of this network namespace."""
        counters = {}
        for name, (rx_bytes, tx_bytes) in proc_text.parse_net_dev(self._read("/proc/net/dev")).items():
            nic = self._nics.get(name) or self._nic(name)
            self._nics[name] = nic
            counters[name] = NicCounters(
                kind=nic.kind, rx_bytes=rx_bytes, tx_bytes=tx_bytes, bytes_per_s=nic.bytes_per_s
            )
        return counters

    def disk_counters(self) -> dict[str, DiskCounters]:
        """Return every block device that counts its busy time."""
        busy = proc_text.parse_diskstats(self._read("/proc/diskstats"))
        return {name: DiskCounters(whole=name in self._disks, busy_s=busy_s) for name, busy_s in busy.items()}

    def stalled_s(self) -> dict[str, float]:
        """Return the machine's pressure by resource; nothing where the kernel has none."""
        texts = {name: read_or_none(below(self._root, f"/proc/pressure/{name}")) for name in RESOURCES}
        return {name: proc_text.parse_stalled_s(text) for name, text in texts.items() if text is not None}

    def _whole_disks(self) -> dict[str, str]:
        # Partitions are not in /sys/block; dm, md, loop, ram and zram have no device behind them.
        # sysfs writes a "/" in a device's name as "!".
        folder = below(self._root, "/sys/block")
        disks = [name for name in os.listdir(folder) if exists(f"{folder}/{name}/device")]  # noqa: PTH208
        return {
            name.replace("!", "/"): (read_or_none(f"{folder}/{name}/dev") or b"").strip().decode()
            for name in disks
        }

    def _nic(self, name: str) -> _Nic:
        folder = below(self._root, f"/sys/class/net/{name}")
        flags = read_or_none(f"{folder}/flags")
        if name == "lo" or (flags is not None and int(flags, 16) & IFF_LOOPBACK):
            return _Nic(kind="loopback", bytes_per_s=None)
        if not exists(f"{folder}/device"):
            # A bridge, bond, tunnel or veth states a made-up speed (veth 10 Gbit/s, tun 10 Mbit/s).
            return _Nic(kind="virtual", bytes_per_s=None)
        speed = read_or_none(f"{folder}/speed")  # EINVAL while the link is down
        return _Nic(kind="hardware", bytes_per_s=None if speed is None else proc_text.parse_speed(speed))

    def _read(self, path: str) -> bytes:
        return read(below(self._root, path))
