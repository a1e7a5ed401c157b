"""The counters of one control group, v1 and v2. I/O only; every function may raise."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from steelyard_agent import cgroup, machine
from steelyard_agent.cgroup import Place
from steelyard_agent.reading import Throttling
from steelyard_agent.readings.files import below, read, read_or_none

# v1's only sign of a limit that lies above what a container can see; it is a line of memory.stat.
INHERITED = "hierarchical_memory_limit"


def used_s(root: Path, place: Place) -> float:
    """Return the CPU seconds that the group and those in it have used."""
    text = read(below(root, cpu_file(place)))
    return machine.parse_flat(text)["usage_usec"] / 1e6 if place.mount.version == 2 else int(text) / 1e9


def used_bytes(root: Path, place: Place) -> int | None:
    """Return the group's memory without its inactive file cache; None for v2's topmost group, the machine."""
    folder, v2 = below(root, place.folder), place.mount.version == 2
    if v2 and place.path == "/" and read_or_none(f"{folder}/memory.current") is None:
        return None
    usage = int(read(below(root, memory_file(place))))
    stat = machine.parse_flat(read(f"{folder}/memory.stat"))
    # The two files are not read at the same instant, so the cache may by now be the larger.
    return max(usage - stat["inactive_file" if v2 else "total_inactive_file"], 0)


def io_stalled_s(root: Path, place: Place) -> float | None:
    """Return the seconds in which some task of the group waited for a disk; v1 does not count them."""
    text = read_or_none(f"{below(root, place.folder)}/io.pressure") if place.mount.version == 2 else None
    return None if text is None else machine.parse_stalled_s(text)


def io_ops(root: Path, place: Place, whole_disks: Collection[str]) -> Mapping[str, int] | None:
    """Return the group's reads and writes by device, of whole disks only."""
    text = read(below(root, _file(place, "blkio.throttle.io_serviced", "io.stat")))
    counts = cgroup.parse_io_stat(text) if place.mount.version == 2 else cgroup.parse_io_serviced(text)
    if place.mount.version == 1 and not counts:
        # Recent kernels' v1 counts only on disks that had a throttling rule once: that is no figure, not 0.
        return None
    # What is stacked on a disk (dm, md, loop) repeats the disk's own operations.
    return {device: count for device, count in counts.items() if device in whole_disks}


def throttling(root: Path, place: Place) -> Throttling | None:
    """Return how often the group's quota held it; None where the cpu controller does not reach."""
    text = read_or_none(f"{below(root, place.folder)}/cpu.stat")
    stat = {} if text is None else machine.parse_flat(text)
    if "nr_periods" not in stat:
        return None
    throttled_s = stat["throttled_usec"] / 1e6 if "throttled_usec" in stat else stat["throttled_time"] / 1e9
    return Throttling(
        periods=stat["nr_periods"], throttled_periods=stat["nr_throttled"], throttled_s=throttled_s
    )


def identity(root: Path, place: Place) -> tuple[object, ...]:
    """Return what a group that is made again under the same name does not share; raise when it is gone."""
    folder = below(root, place.folder)
    return folder, os.stat(folder).st_ino  # noqa: PTH116 (a Path would only be made for it)


def cpu_file(place: Place) -> str:
    """Return where the CPU time is counted."""
    return _file(place, "cpuacct.usage", "cpu.stat")


def quota_file(place: Place) -> str:
    """Return where the CPU quota is."""
    return _file(place, "cpu.cfs_quota_us", "cpu.max")


def memory_file(place: Place) -> str:
    """Return where memory is counted."""
    return _file(place, "memory.usage_in_bytes", "memory.current")


def memory_limit_file(place: Place) -> str:
    """Return where the memory limit is."""
    return _file(place, f"memory.limit_in_bytes or {INHERITED} of memory.stat", "memory.max or memory.high")


def sources(found: Mapping[str, Place]) -> Mapping[str, str]:
    """Return the file of each column that has one."""
    files = {
        "cores": "/sys/devices/system/cpu/online",
        "machine mem": "/proc/meminfo",
        "net": "/proc/net/dev",
        "speed": "/sys/class/net/*/speed",
        "psi": "/proc/pressure",
    }
    if "cpuset" in found:
        files["cpuset"] = _file(found["cpuset"], "cpuset.effective_cpus", "cpuset.cpus.effective")
    if "cpu" in found:
        files["throttled"] = f"{found['cpu'].folder}/cpu.stat"
    if "blkio" in found:
        files["ops"] = _file(found["blkio"], "blkio.throttle.io_serviced", "io.stat")
        files["stalled"] = f"{found['blkio'].folder}/io.pressure"
    return files


def _file(place: Place, v1: str, v2: str) -> str:
    return f"{place.folder}/{v2 if place.mount.version == 2 else v1}"
