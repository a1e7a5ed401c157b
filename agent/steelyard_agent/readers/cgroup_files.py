"""Control groups: the mounts of this process's, and the counters and limits of one, v1 and v2.

I/O only; `cgroup_text` and `kernel_text` parse the text of the files. Reading a counter may raise.
A limit with a missing file or the text "none" is no limit: the topmost group has no limits.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from steelyard_agent import cgroup_text, kernel_text
from steelyard_agent.cgroup_text import Cgroup, Mount
from steelyard_agent.readers import linux_devices
from steelyard_agent.readers.files import below, exists, read, read_or_none
from steelyard_agent.scopes.cgroup import Throttling, tightest

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")

# Figures of a group, and their files in v1 and in v2.
FILES: Mapping[str, tuple[str, str]] = {
    "cpu": ("cpuacct.usage", "cpu.stat"),
    "cpu limit": ("cpu.cfs_quota_us", "cpu.max"),
    "cpuset": ("cpuset.effective_cpus", "cpuset.cpus.effective"),
    "memory": ("memory.usage_in_bytes", "memory.current"),
    "operations": ("blkio.throttle.io_serviced", "io.stat"),
}

# v1's only sign of a limit above a container's view; it is a line of memory.stat.
INHERITED = "hierarchical_memory_limit"


class GroupOutOfSightError(ValueError):
    """Only groups above this process's cgroup namespace are mounted; `point` is where."""

    def __init__(self, point: str) -> None:
        super().__init__(
            f"{point} shows the host's groups, and this process's is not to be found among them: start its "
            f"container with --cgroupns host, or without that mount"
        )
        self.point = point


def mounts(root: Path) -> tuple[Mount, ...]:
    """Return the mounted hierarchies."""
    return cgroup_text.parse_mounts(read(below(root, "/proc/self/mountinfo")))


def own_groups(root: Path) -> dict[str, Cgroup]:
    """Return this process's group in each controller; raise OSError or `GroupOutOfSightError`."""
    membership = cgroup_text.parse_membership(read(below(root, "/proc/self/cgroup")))
    mounted = mounts(root)
    groups = {name: cgroup_text.locate(name, mounted, membership) for name in CONTROLLERS}
    missing = {name for name, group in groups.items() if group is None}
    for mount in mounted:
        if mount.above_namespace and missing & (mount.controllers or missing):
            raise GroupOutOfSightError(mount.point)
    return {name: group for name, group in groups.items() if group is not None}


def mount_of(controller: str, mounted: Iterable[Mount]) -> Mount | None:
    """Return the hierarchy of a controller: v1's if v1 has it, else v2's."""
    own = next((mount for mount in mounted if controller in mount.controllers), None)
    return own or next((mount for mount in mounted if mount.version == 2), None)


def groups_at(root: Path, mounted: Iterable[Mount], path: str) -> dict[str, Cgroup]:
    """Return the group of this path in each controller that has one."""
    groups: dict[str, Cgroup] = {}
    for controller in CONTROLLERS:
        mount = mount_of(controller, mounted)
        group = None if mount is None else Cgroup(mount=mount, path=path)
        # A controller without that group inherits the limits of its ancestors, but not their counts.
        if group is not None and controller in {"cpu", "cpuset"}:
            group = next((level for level in group.upwards if exists(below(root, level.folder))), None)
        if group is not None and exists(below(root, group.folder)):
            groups[controller] = group
    return groups


def is_container_view(root: Path, mount: Mount) -> bool:
    """Return whether the topmost visible group is only a part of the machine's: a container's view."""
    point = below(root, mount.point)
    if mount.version == 1:
        # Only the very topmost group has the file release_agent.
        return mount.root != "/" or (exists(f"{point}/tasks") and not exists(f"{point}/release_agent"))
    return mount.root != "/" or exists(f"{point}/cgroup.type")


def container_of(root: Path, group: Cgroup) -> Cgroup:
    """Return the whole container of a group: systemd inside of a container makes units below it."""
    if group.unit and is_container_view(root, group.mount):
        return Cgroup(mount=group.mount, path="/", exact=group.exact)
    return group


def used_s(root: Path, group: Cgroup) -> float:
    """Return the CPU seconds of the group and its children."""
    text = read(below(root, file_of(group, "cpu")))
    return kernel_text.flat_value(text, "usage_usec") / 1e6 if group.mount.version == 2 else int(text) / 1e9


def used_bytes(root: Path, group: Cgroup) -> int | None:
    """Return the group's memory without its inactive file cache; None for v2's topmost group, the machine."""
    folder, v2 = below(root, group.folder), group.mount.version == 2
    if v2 and group.path == "/" and read_or_none(f"{folder}/memory.current") is None:
        return None
    usage = int(read(below(root, file_of(group, "memory"))))
    cache = kernel_text.flat_value(
        read(f"{folder}/memory.stat"), "inactive_file" if v2 else "total_inactive_file"
    )
    # The two files are not read at the same instant, so the cache may by now be the larger.
    return max(usage - cache, 0)


def io_stalled_s(root: Path, group: Cgroup) -> float | None:
    """Return the seconds in which some task of the group waited for a disk; v1 does not count them."""
    text = read_or_none(f"{below(root, group.folder)}/io.pressure") if group.mount.version == 2 else None
    return None if text is None else kernel_text.parse_stalled_s(text)


def io_ops(root: Path, group: Cgroup, whole_disks: Collection[str]) -> Mapping[str, int] | None:
    """Return the group's reads and writes by device, of whole disks only."""
    text = read(below(root, file_of(group, "operations")))
    parse = cgroup_text.parse_io_stat if group.mount.version == 2 else cgroup_text.parse_io_serviced
    counts = parse(text)
    if group.mount.version == 1 and not counts:
        # Recent kernels' v1 counts only disks that had a throttling rule once: no figure then, rather than 0.
        return None
    # A device stacked on a disk (dm, md, loop) repeats the disk's own operations.
    return {device: count for device, count in counts.items() if device in whole_disks}


def throttling(root: Path, group: Cgroup) -> Throttling | None:
    """Return the periods in which the group's quota held it; None if the cpu controller does not reach it."""
    text = read_or_none(f"{below(root, group.folder)}/cpu.stat")
    stat = {} if text is None else kernel_text.parse_flat(text)
    if "nr_periods" not in stat:
        return None
    throttled_s = stat["throttled_usec"] / 1e6 if "throttled_usec" in stat else stat["throttled_time"] / 1e9
    return Throttling(
        periods=stat["nr_periods"], throttled_periods=stat["nr_throttled"], throttled_s=throttled_s
    )


def identity(root: Path, group: Cgroup) -> tuple[object, ...]:
    """Return the identity of the group, another one for a later group of its name; raise if it is gone."""
    folder = below(root, group.folder)
    return folder, os.stat(folder).st_ino  # noqa: PTH116 (a Path would only be made for it)


def quota_cores(root: Path, group: Cgroup) -> float | None:
    """Return the CPU quota set on this very group, in cores."""
    folder = below(root, group.folder)
    with suppress(ValueError):
        if group.mount.version == 2:
            text = read_or_none(f"{folder}/cpu.max")
            return None if text is None else cgroup_text.cpu_max_cores(text)
        quota, period = (read_or_none(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        return None if quota is None or period is None else cgroup_text.cfs_cores(quota, period)
    return None


def quota_cores_of(root: Path, pid: int, mounted: tuple[Mount, ...]) -> float | None:
    """Return the tightest visible CPU quota on a process's groups, in cores."""
    text = read_or_none(below(root, f"/proc/{pid}/cgroup"))
    group = None if text is None else cgroup_text.locate("cpu", mounted, cgroup_text.parse_membership(text))
    if group is None or not group.exact:  # another container's
        return None
    return tightest(quota_cores(root, level) for level in group.upwards)


def memory_limit_bytes(root: Path, group: Cgroup) -> int | None:
    """Return the memory limit set on this very group; v2's `high` counts: beyond it work is stalled."""
    names = ("memory.max", "memory.high") if group.mount.version == 2 else ("memory.limit_in_bytes",)
    limits = []
    for name in names:
        text = read_or_none(f"{below(root, group.folder)}/{name}")
        with suppress(ValueError):
            limits.append(None if text is None else cgroup_text.limit_bytes(text))
    return min((limit for limit in limits if limit is not None), default=None)


def inherited_memory_limit_bytes(root: Path, group: Cgroup) -> int | None:
    """Return the tightest memory limit of all levels, including those above the mount (v1 only)."""
    if group.mount.version == 2:
        return None
    text = read_or_none(f"{below(root, group.folder)}/memory.stat")
    limit = kernel_text.parse_flat(text).get(INHERITED) if text is not None else None
    return limit if limit is not None and limit < cgroup_text.UNLIMITED_BYTES else None


def cpuset_cores(root: Path, group: Cgroup) -> int | None:
    """Return how many CPUs the group may run on."""
    for level in group.upwards:  # v2: a group without the controller inherits from the one above
        text = read_or_none(below(root, file_of(level, "cpuset")))
        if text is not None:
            return kernel_text.parse_cpu_list(text)
    return None


def limited_folders(root: Path, group: Cgroup) -> Iterator[str]:
    """Yield the folders of the groups with a limit of CPU or memory, from this one upwards."""
    for level in group.upwards:
        if quota_cores(root, level) is not None or memory_limit_bytes(root, level) is not None:
            yield level.folder


def file_of(group: Cgroup, what: str) -> str:
    """Return the path of one of `FILES`."""
    return f"{group.folder}/{FILES[what][group.mount.version - 1]}"


def memory_limit_file(group: Cgroup) -> str:
    """Return the path of the memory limit, for a person."""
    v1 = f"memory.limit_in_bytes or {INHERITED} of memory.stat"
    return f"{group.folder}/{v1 if group.mount.version == 1 else 'memory.max or memory.high'}"


def sources(groups: Mapping[str, Cgroup]) -> Mapping[str, str]:
    """Return the file of each column, if it has one."""
    files = {name: linux_devices.SOURCES[name] for name in ("cores", "net", "speed", "psi")}
    files["machine mem"] = "/proc/meminfo"
    if "cpuset" in groups:
        files["cpuset"] = file_of(groups["cpuset"], "cpuset")
    if "cpu" in groups:
        files["throttled"] = f"{groups['cpu'].folder}/cpu.stat"
    if "blkio" in groups:
        files["ops"] = file_of(groups["blkio"], "operations")
        files["stalled"] = f"{groups['blkio'].folder}/io.pressure"
    return files
