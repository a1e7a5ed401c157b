"""Reads the host scope: a whole machine, bare metal or virtual.

I/O only. `machine_counters` reads each counter, and chooses the CPU time that counts as busy (stolen time
does). Inside a container these are the host's figures, not the container's.
"""

import time
from collections.abc import Callable
from pathlib import Path

from steelyard_agent.readers import uptime
from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.machine_counters import MachineCounters, devices_below
from steelyard_agent.scopes.host import HostReading


class HostReader:
    """Reads the machine's counters; `extras` are figures that are only shown.

    Its devices are this platform's, on Linux below `root`: set `psutil.PROCFS_PATH` there too.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        extras: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._extras = extras
        self._clock = clock
        self._columns = ColumnReader()
        self._devices = devices_below(root)
        self._machine = MachineCounters(self._devices, self._columns)

    def __call__(self) -> HostReading:
        """Read every column there is; never raises."""
        at_s, read, machine, devices = self._clock(), self._columns.read, self._machine, self._devices
        machine.refresh(at_s)
        busy_s, stolen_s = read("cpu", machine.cpu_s) or (None, 0.0)
        return HostReading(
            at_s=at_s,
            cores=read("the number of cores", devices.cores),
            cpu_busy_s=busy_s,
            cpu_stolen_s=stolen_s,
            memory=read("memory", machine.memory),
            nics=read("net", machine.nics),
            disks=read("io", machine.whole_disks),
            up_s=uptime.machine_s(self._root),
            stalled_s=(read("pressure", devices.stalled_s) or {}) if self._extras else {},
            sources=devices.sources,
            lacking=devices.lacking,
        )
