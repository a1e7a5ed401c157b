"""The limits of a control group and of those it lies in. I/O only.

A file that is missing or says "none" is no limit: the topmost group has none of them.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from steelyard_agent import cgroup
from steelyard_agent.cgroup import Place
from steelyard_agent.machine import parse_cpu_list, parse_flat
from steelyard_agent.readings.files import below, read_or_none
from steelyard_agent.readings.group_files import INHERITED


def quota_cores(root: Path, place: Place) -> float | None:
    """Return the CPU quota set on this very group, in cores."""
    folder = below(root, place.folder)
    with suppress(ValueError):
        if place.mount.version == 2:
            text = read_or_none(f"{folder}/cpu.max")
            return None if text is None else cgroup.cpu_max_cores(text)
        quota, period = (read_or_none(f"{folder}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        return None if quota is None or period is None else cgroup.cfs_cores(quota, period)
    return None


def memory_bytes(root: Path, place: Place) -> int | None:
    """Return the memory limit set on this very group; v2's `high` counts: beyond it work is stalled."""
    names = ("memory.max", "memory.high") if place.mount.version == 2 else ("memory.limit_in_bytes",)
    limits = []
    for name in names:
        text = read_or_none(f"{below(root, place.folder)}/{name}")
        with suppress(ValueError):
            limits.append(None if text is None else cgroup.limit_bytes(text))
    return min((limit for limit in limits if limit is not None), default=None)


def inherited_memory_bytes(root: Path, place: Place) -> int | None:
    """Return the tightest memory limit of all levels, also of those above what is mounted (v1 only)."""
    if place.mount.version == 2:
        return None
    text = read_or_none(f"{below(root, place.folder)}/memory.stat")
    limit = parse_flat(text).get(INHERITED) if text is not None else None
    return limit if limit is not None and limit < cgroup.UNLIMITED_BYTES else None


def cpuset_cores(root: Path, place: Place) -> int | None:
    """Return how many CPUs the group may run on."""
    name = "cpuset.cpus.effective" if place.mount.version == 2 else "cpuset.effective_cpus"
    for level in place.upwards:  # v2: where the controller is not handed down, the group above has it
        text = read_or_none(f"{below(root, level.folder)}/{name}")
        if text is not None:
            return parse_cpu_list(text)
    return None


def limited(root: Path, place: Place) -> Iterator[str]:
    """Yield the groups, from this one upwards, that have a limit of CPU or memory."""
    for level in place.upwards:
        if quota_cores(root, level) is not None or memory_bytes(root, level) is not None:
            yield level.folder
