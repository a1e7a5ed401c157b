"""The cgroup scope: a container, or any control group, v1 and v2.

I/O only, Linux only. Where groups are and what their files say is in `cgroup`.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from steelyard_agent.cgroup import Place
from steelyard_agent.reading import Absent, CgroupReading, CpuLevel, MemoryLevel
from steelyard_agent.readings import group_files, levels, place
from steelyard_agent.readings.columns import Columns
from steelyard_agent.readings.hardware import Hardware
from steelyard_agent.readings.levels import Level, Levels

T = TypeVar("T")

# Limits can change while a container runs (docker update, a resized pod), and rarely do. A reader that
# looked at them every second would open twice as many files.
LIMITS_AGE_S = 10.0


class CgroupReader:
    """Reads this process's own group below `root`, or the one that `find` returns the places of.

    `count_net`: the network namespace is the group's own, so that its NICs are the group's.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        find: Callable[[], Mapping[str, Place]] | None = None,
        count_io: bool = False,
        count_net: bool = True,
        extras: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._find = find or (lambda: _own(root))
        self._count_io = count_io
        self._count_net = count_net
        self._extras = extras
        self._clock = clock
        self._columns = Columns()
        self._hardware = Hardware(root, self._columns)
        self._places: Mapping[str, Place] = {}
        self._levels = Levels(cpu=(), memory=(), cpuset_cores=None)
        self._sources: Mapping[str, str] = {}
        self._looked_at_s: float | None = None

    def __call__(self) -> CgroupReading | Absent:
        """Read the group, or say why there is none; never raises."""
        at_s = self._clock()
        try:
            self._look(at_s)
            group = self._places.get("cpuacct") or self._places.get("memory")
            if group is None:
                return Absent("no control group counts the CPU time or the memory of this process")
            identity = group_files.identity(self._root, group)
        except (OSError, ValueError) as error:
            self._looked_at_s = None
            return Absent(f"the control group cannot be found ({error})")
        self._hardware.look(at_s)
        return self._reading(at_s, identity, group.folder)

    def _look(self, at_s: float) -> None:
        if self._looked_at_s is None or not 0 <= at_s - self._looked_at_s < LIMITS_AGE_S:
            self._places = self._find()
            self._levels = levels.look(self._root, self._places)
            self._sources = group_files.sources(self._places)
            self._looked_at_s = at_s

    def _reading(self, at_s: float, identity: tuple[object, ...], name: str) -> CgroupReading:
        read, hardware, root = self._columns.read, self._hardware, self._root
        whole = hardware.disks.values()
        return CgroupReading(
            at_s=at_s,
            identity=identity,
            name=name,
            cpu=tuple(self._cpu(level) for level in self._levels.cpu),
            cpuset_cores=self._levels.cpuset_cores,
            machine_cores=read("the number of cores", hardware.cores),
            memory=tuple(self._memory(level) for level in self._levels.memory),
            machine_memory=read("memory size", hardware.memory),
            nics=read("net", hardware.nics) if self._count_net else None,
            io_stalled_s=self._of(
                "blkio", "io pressure", lambda group: group_files.io_stalled_s(root, group)
            ),
            io_ops=self._of("blkio", "io", lambda group: group_files.io_ops(root, group, whole))
            if self._count_io
            else None,
            throttling=self._of("cpu", "throttling", lambda group: group_files.throttling(root, group))
            if self._extras
            else None,
            stalled_s=(read("pressure", hardware.stalled_s) or {}) if self._extras else {},
            sources=self._sources,
        )

    def _of(self, controller: str, name: str, reader: Callable[[Place], T]) -> T | None:
        group = self._places.get(controller)
        return None if group is None else self._columns.read(name, lambda: reader(group))

    def _cpu(self, level: Level) -> CpuLevel:
        used_s = self._columns.read(f"cpu of {level.path}", level.used)
        return CpuLevel(
            path=level.path,
            used_s=used_s,
            quota_cores=level.limit,
            used_file=level.used_file,
            limit_file=level.limit_file,
        )

    def _memory(self, level: Level) -> MemoryLevel:
        used_bytes = self._columns.read(f"memory of {level.path}", level.used)
        return MemoryLevel(
            path=level.path,
            used_bytes=used_bytes,
            limit_bytes=level.limit,
            used_file=level.used_file,
            limit_file=level.limit_file,
        )


def _own(root: Path) -> Mapping[str, Place]:
    return {name: place.whole(root, group) for name, group in place.places(root).items()}
