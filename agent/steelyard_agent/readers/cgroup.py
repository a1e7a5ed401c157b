"""Reads the cgroup scope: a container, or any control group, v1 and v2.

I/O only, Linux only. A limit on a parent group holds all of its children, so each
limit is compared with the use at its own level. CPU and memory are read
at the group itself and at each ancestor with a limit.

All levels' limits are looked up every `LIMITS_AGE_S`. The binding quota is read
with each sample; if it has changed, all levels are looked up again before the sample is taken.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TypeVar

from steelyard_agent.cgroup_text import Cgroup
from steelyard_agent.moment import Moment
from steelyard_agent.readers import cgroup_files, uptime
from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.machine_counters import MachineCounters, devices_below
from steelyard_agent.scopes.cgroup import CgroupReading, Level, tightest
from steelyard_agent.scopes.machine_utilization import NicCounters
from steelyard_agent.scopes.reading import Absent

T = TypeVar("T")

# Limits can change while a container runs (docker update, a resized pod), and rarely do. Reading all of them
# every second would open twice as many files; the binding one is read.
LIMITS_AGE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """A group's levels: its own first, then its ancestors with a limit.

    Each has its limit, and the group that counts its use, or None.
    """

    cpu: tuple[tuple[Level, Cgroup | None], ...]
    memory: tuple[tuple[Level, Cgroup], ...]
    cpuset_cores: int | None
    quota: tuple[Cgroup, float | None] | None = None
    """The group with the tightest quota, and that quota; without any quota, the group itself."""


class CgroupReader:
    """Reads this process's own group below `root`, or the result of `find`.

    `count_net`: count NICs, either those that `nics` returns or this process's, if its network namespace
    is the group's own. With several groups, `name` is this one's, and all of them
    share `machine` and `moment`.
    """

    def __init__(
        self,
        *,
        root: Path = Path("/"),
        find: Callable[[], Mapping[str, Cgroup]] | None = None,
        count_io: bool = False,
        count_net: bool = True,
        nics: Callable[[], Mapping[str, NicCounters]] | None = None,
        extras: bool = False,
        name: str = "",
        machine: MachineCounters | None = None,
        moment: Moment | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._count_io = count_io
        self._count_net = count_net
        self._extras = extras
        self._name = name
        self._clock = clock
        self._find = find or (lambda: _own_container(root))
        self._began_s = uptime.container_began_s(root) if find is None else None
        self._columns = ColumnReader(name)
        self._machine = machine or MachineCounters(devices_below(root), self._columns)
        self._nics = nics or self._machine.nics
        self._net_source = {} if nics is None else {"net": "/proc/PID/net/dev of a process of it"}
        self._moment = moment or Moment(span_s=0.0)
        self._groups: Mapping[str, Cgroup] = {}
        self._levels = _Levels(cpu=(), memory=(), cpuset_cores=None)
        self._sources: Mapping[str, str] = {}
        self._found_at_s: float | None = None

    def __call__(self) -> CgroupReading | Absent:
        """Read the group, or return the reason for its absence; never raises."""
        at_s = self._clock()
        try:
            self._refresh(at_s)
            group = self._groups.get("cpuacct") or self._groups.get("memory")
            if group is None:
                return Absent(
                    f"{self._name}: no control group counts its CPU time or its memory"
                    if self._name
                    else "no control group counts the CPU time or the memory of this process"
                )
            identity = cgroup_files.identity(self._root, group)
        except (OSError, ValueError) as error:
            found_before = self._found_at_s not in {None, at_s}
            self._found_at_s = None
            if found_before:  # it has ended; there may be another one, and if not, that is the reason
                return self()
            whose = f"{self._name}: its" if self._name else "the"
            return Absent(f"{whose} control group cannot be found ({error})")
        self._machine.refresh(at_s)
        self._moment.at(at_s)
        return self._reading(at_s, identity, self._name or group.folder)

    def _refresh(self, at_s: float) -> None:
        known = self._found_at_s is not None and 0 <= at_s - self._found_at_s < LIMITS_AGE_S
        if not known or self._quota_changed():
            self._groups = self._find()
            self._levels = _levels(self._root, self._groups)
            self._sources = {**cgroup_files.sources(self._groups), **self._net_source}
            self._found_at_s = at_s

    def _quota_changed(self) -> bool:
        if self._levels.quota is None:
            return False
        group, cores = self._levels.quota
        return cgroup_files.quota_cores(self._root, group) != cores

    def _reading(self, at_s: float, identity: tuple[object, ...], name: str) -> CgroupReading:
        read, once, machine, root = self._columns.read, self._moment.read, self._machine, self._root
        whole = machine.disks.values()
        return CgroupReading(
            at_s=at_s,
            identity=identity,
            name=name,
            cpu=tuple(self._used(*level, "cpu", cgroup_files.used_s) for level in self._levels.cpu),
            cpuset_cores=self._levels.cpuset_cores,
            machine_cores=read("the number of cores", lambda: once("cores", machine.devices.cores)),
            memory=tuple(
                self._used(*level, "memory", cgroup_files.used_bytes) for level in self._levels.memory
            ),
            machine_memory=read("memory size", lambda: once("memory", machine.memory)),
            nics=read("net", self._nics) if self._count_net else None,
            io_stalled_s=self._of(
                "blkio", "io pressure", lambda group: cgroup_files.io_stalled_s(root, group)
            ),
            io_ops=self._of("blkio", "io", lambda group: cgroup_files.io_ops(root, group, whole))
            if self._count_io
            else None,
            throttling=self._of("cpu", "throttling", lambda group: cgroup_files.throttling(root, group))
            if self._extras
            else None,
            up_s=None if self._began_s is None else max(0.0, uptime.since_boot_s() - self._began_s),
            stalled_s=(read("pressure", machine.devices.stalled_s) or {}) if self._extras else {},
            sources=self._sources,
        )

    def _of(self, controller: str, name: str, reader: Callable[[Cgroup], T]) -> T | None:
        group = self._groups.get(controller)
        return None if group is None else self._columns.read(name, lambda: reader(group))

    def _used(
        self, level: Level, counted: Cgroup | None, what: str, used: Callable[[Path, Cgroup], float | None]
    ) -> Level:
        if counted is None:
            return level
        name = f"{what} of {level.path}"
        return replace(
            level,
            used=self._columns.read(name, lambda: self._moment.read(name, lambda: used(self._root, counted))),
        )


def _own_container(root: Path) -> Mapping[str, Cgroup]:
    own = cgroup_files.own_groups(root)
    return {controller: cgroup_files.container_of(root, group) for controller, group in own.items()}


def _levels(root: Path, groups: Mapping[str, Cgroup]) -> _Levels:
    cpuset, limited = groups.get("cpuset"), groups.get("cpu")
    quotas = {
        group: cgroup_files.quota_cores(root, group)
        for group in (limited.upwards if limited is not None else ())
    }
    return _Levels(
        # The group itself comes first, and so is chosen among equals, and if no group has a quota.
        quota=min(quotas.items(), key=lambda each: inf if each[1] is None else each[1], default=None),
        cpu=tuple(_cpu_levels(groups.get("cpuacct"), quotas)),
        memory=tuple(_memory_levels(root, groups)),
        cpuset_cores=None if cpuset is None else cgroup_files.cpuset_cores(root, cpuset),
    )


def _cpu_levels(
    counted: Cgroup | None, quotas: Mapping[Cgroup, float | None]
) -> list[tuple[Level, Cgroup | None]]:
    levels, own = [], None
    if counted is not None:
        own = next((group for group in quotas if group.path == counted.path), None)
        levels.append(_cpu_level(counted, counted, own, None if own is None else quotas[own]))
    for group, quota in quotas.items():
        if quota is not None and group != own:
            # v1 may count time in another group than the limited one: no figure for that limit then.
            inside = counted is not None and group.holds(counted)
            at = Cgroup(mount=counted.mount, path=group.path) if counted is not None and inside else None
            levels.append(_cpu_level(group, at, group, quota))
    return levels


def _cpu_level(
    group: Cgroup, counted: Cgroup | None, limited: Cgroup | None, quota: float | None
) -> tuple[Level, Cgroup | None]:
    level = Level(
        path=group.folder,
        used=None,
        limit=quota,
        used_file="" if counted is None else cgroup_files.file_of(counted, "cpu"),
        limit_file="" if limited is None else cgroup_files.file_of(limited, "cpu limit"),
    )
    return level, counted


def _memory_levels(root: Path, groups: Mapping[str, Cgroup]) -> list[tuple[Level, Cgroup]]:
    own = groups.get("memory")
    if own is None:
        return []
    limits = {group: cgroup_files.memory_limit_bytes(root, group) for group in own.upwards}
    inherited = cgroup_files.inherited_memory_limit_bytes(root, own)
    seen = tightest(limits.values())
    if inherited is not None and (seen is None or inherited < seen):
        limits[own] = inherited  # its group is above the visible ones, and its use cannot be read
    return [
        (
            Level(
                path=group.folder,
                used=None,
                limit=limit,
                used_file=cgroup_files.file_of(group, "memory"),
                limit_file=cgroup_files.memory_limit_file(group),
            ),
            group,
        )
        for group, limit in limits.items()
        if group == own or limit is not None
    ]
