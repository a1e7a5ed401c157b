"""Reads the process scope of a systemd unit: its control group holds every process of it, however it forks.

I/O only. If the kernel does not count the CPU time of that group (v1
without accounting), the unit's oldest process and its descendants are read instead.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from steelyard_agent.cgroup_text import SYSTEMD_SUFFIXES, Cgroup, Mount
from steelyard_agent.readers import cgroup_files
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.files import below, exists, read_or_none
from steelyard_agent.readers.process import ProcessReader
from steelyard_agent.readers.process_finder import TargetProcess
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.process import ProcessReading
from steelyard_agent.scopes.reading import Absent

# For a unit outside of system.slice the whole tree is searched, hundreds of folders: not every second.
SEARCH_AGAIN_S = 10.0

# Slices in slices are rare, and the groups inside of a container are not the host's units.
MOST_FOLDERS_DEEP = 6


class UnitReader:
    """Reads a unit; a name without a suffix is a service's."""

    def __init__(
        self,
        unit: str,
        *,
        root: Path = Path("/"),
        count_io: bool = False,
        extras: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unit = unit if unit.endswith(SYSTEMD_SUFFIXES) else f"{unit}.service"
        self._root = root
        self._clock = clock
        self._point = ""
        self._path: str | None = None
        self._searched_at_s: float | None = None
        # The NICs are the machine's, not the unit's.
        self._group = CgroupReader(
            root=root, find=self._groups, count_io=count_io, count_net=False, extras=extras, clock=clock
        )
        self._tree = ProcessReader(find=self._oldest, root=root, count_io=count_io, clock=clock)

    def __call__(self) -> CgroupReading | ProcessReading | Absent:
        """Read the unit, or return the reason for its absence; never raises."""
        try:
            counted = "cpuacct" in self._groups()
        except OSError as error:
            return Absent(str(error))
        return self._group() if counted else self._tree()

    def _groups(self) -> Mapping[str, Cgroup]:
        mounts = cgroup_files.mounts(self._root)
        return cgroup_files.groups_at(self._root, mounts, self._where(mounts))

    def _where(self, mounts: tuple[Mount, ...]) -> str:
        """Return the unit's path in systemd's hierarchy; raise OSError when it is not running."""
        tree = cgroup_files.mount_of("name=systemd", mounts)
        if tree is None:
            raise OSError("systemd's control groups are not mounted here")
        self._point = below(self._root, tree.point)
        for path in (self._path, f"/system.slice/{self._unit}"):
            if path is not None and exists(f"{self._point}{path}/cgroup.procs"):
                self._path = path
                return path
        self._path = self._search(self._point)
        if self._path is None:
            raise OSError(f"unit {self._unit} is not running")
        return self._path

    def _search(self, point: str) -> str | None:
        now_s = self._clock()
        if self._searched_at_s is not None and 0 <= now_s - self._searched_at_s < SEARCH_AGAIN_S:
            return None
        self._searched_at_s = now_s
        for folder, inside, _ in os.walk(point):
            if self._unit in inside:
                return f"{folder}/{self._unit}".removeprefix(point)
            if folder.removeprefix(point).count("/") >= MOST_FOLDERS_DEEP:
                inside.clear()
            inside.sort()
        return None

    def _oldest(self) -> TargetProcess | Absent:
        text = read_or_none(f"{self._point}{self._path}/cgroup.procs")
        pids = [int(pid) for pid in (text or b"").split()]
        if not pids:
            return Absent(f"unit {self._unit} has no process")
        # The list has no meaningful order, and a number wraps only once in a long while.
        pid = min(pids)
        return TargetProcess(pid=pid, named=f"process {pid} of unit {self._unit}", source=self._unit)
