"""Reads the host scope: a whole machine, bare metal or virtual.

I/O only. Inside a container these are the host's figures, not the container's.
"""

import time
from collections.abc import Callable
from pathlib import Path

from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.hardware import Hardware
from steelyard_agent.scopes.host import HostReading

SOURCES = {
    "cpu": "/proc/stat",
    "cores": "/sys/devices/system/cpu/online",
    "mem": "/proc/meminfo",
    "net": "/proc/net/dev",
    "speed": "/sys/class/net/*/speed",
    "io": "/proc/diskstats",
    "psi": "/proc/pressure",
}


class HostReader:
    """Reads the machine's counters below `root`; `extras` are what is only shown."""

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        extras: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._extras = extras
        self._columns = ColumnReader()
        self._hardware = Hardware(root, self._columns)

    def __call__(self) -> HostReading:
        """Read every column there is; never raises."""
        at_s, read, hardware = self._clock(), self._columns.read, self._hardware
        hardware.refresh(at_s)
        return HostReading(
            at_s=at_s,
            cores=read("the number of cores", hardware.cores),
            cpu_busy_s=read("cpu", hardware.busy_s),
            memory=read("memory", hardware.memory),
            nics=read("net", hardware.nics),
            disks=read("io", hardware.disk_counters),
            stalled_s=(read("pressure", hardware.stalled_s) or {}) if self._extras else {},
            sources=SOURCES,
        )
