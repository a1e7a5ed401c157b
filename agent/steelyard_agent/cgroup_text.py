"""Parsers of control groups' files, and the location of a process's group (cgroups(7), v1 and v2).

Pure: the text of files in, groups and numbers out. Each v1 controller has its
own hierarchy; if v1 and v2 are both mounted, a controller is in one of them only.

    cores of a limit = quota / period                  no limit: None
    memory in use    = usage - inactive file cache     the kernel reclaims that cache first
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal

# v1's "no limit" is the largest multiple of a page below 2**63, and page sizes differ.
UNLIMITED_BYTES = 2**60

SYSTEMD_SUFFIXES = (".service", ".scope", ".slice", ".mount", ".socket")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mounted hierarchy. `root` is the group visible at `point`; "/" is the topmost one."""

    version: Literal[1, 2]
    controllers: frozenset[str]
    root: str
    point: str

    @property
    def above_namespace(self) -> bool:
        """Return whether the mount shows groups above this process's cgroup namespace.

        The kernel writes its root as "/.." or "/../.." then, without names (cgroup_namespaces(7)). So the
        place of this process's group in the mount is unknown.
        """
        return ".." in PurePosixPath(self.root).parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A control group: its path below the mount point, "/" being the mount point itself.

    `exact` is false if the group lies outside of the mount: the mount point then replaces it.
    """

    mount: Mount
    path: str
    exact: bool = True

    @property
    def folder(self) -> str:
        """Return the directory of the group."""
        return self.mount.point if self.path == "/" else self.mount.point + self.path

    @property
    def upwards(self) -> tuple["Cgroup", ...]:
        """Return the group and its ancestors, up to the mount point."""
        above = [str(path) for path in PurePosixPath(self.path).parents]
        return (self, *(replace(self, path=path) for path in above))

    @property
    def unit(self) -> bool:
        """Return whether systemd made this group."""
        return self.path.endswith(SYSTEMD_SUFFIXES)

    def holds(self, other: "Cgroup") -> bool:
        """Return whether a group with the path of `other` is this one or lies in it."""
        return PurePosixPath(other.path).is_relative_to(self.path)


def parse_mounts(mountinfo: bytes) -> tuple[Mount, ...]:
    """Read /proc/<pid>/mountinfo: the mounted hierarchies."""
    mounts = []
    for line in mountinfo.decode(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(" "), right.split(" ")
        if len(fields) < 6 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        v1 = kind[0] == "cgroup"
        mounts.append(
            Mount(
                version=1 if v1 else 2,
                controllers=frozenset(kind[2].split(",")) if v1 else frozenset(),
                root=_unescaped(fields[3]),
                point=_unescaped(fields[4]),
            )
        )
    return tuple(mounts)


def parse_membership(text: bytes) -> Mapping[str, str]:
    """Read /proc/<pid>/cgroup: the path of the process's group by controller; "" is v2's."""
    paths = {}
    for line in text.decode(errors="replace").splitlines():
        number, colon, rest = line.partition(":")
        controllers, second, path = rest.partition(":")
        if number.isdigit() and colon and second:
            # A removed group that still has a process.
            path = path.removesuffix(" (deleted)")
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def locate(controller: str, mounts: Iterable[Mount], membership: Mapping[str, str]) -> Cgroup | None:
    """Return the group in which a controller counts the process: v1's if v1 has it, else v2's.

    A mount that shows groups above the process's cgroup namespace does not count: its topmost group is
    another one, up to the whole machine's.
    """
    mounted = list(mounts)
    holding = [mount for mount in mounted if controller in mount.controllers and controller in membership]
    key = controller
    if not holding and "" in membership:
        holding, key = [mount for mount in mounted if mount.version == 2], ""
    visible = next((mount for mount in holding if not mount.above_namespace), None)
    return None if visible is None else _cgroup(visible, membership[key])


def _cgroup(mount: Mount, path: str) -> Cgroup:
    inner, root = PurePosixPath(path), PurePosixPath(mount.root)
    # "/.." marks a group outside of the cgroup namespace.
    if ".." not in inner.parts and inner.is_relative_to(root):
        return Cgroup(mount=mount, path=str("/" / inner.relative_to(root)))
    return Cgroup(mount=mount, path="/", exact=False)


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)


def cpu_max_cores(text: bytes) -> float | None:
    """Read v2's cpu.max: quota and period in us, or `max`."""
    quota, period = text.split()
    return None if quota == b"max" else _cores(int(quota), int(period))


def cfs_cores(quota_us: bytes, period_us: bytes) -> float | None:
    """Read v1's cpu.cfs_quota_us (-1: none) and cpu.cfs_period_us."""
    return _cores(int(quota_us), int(period_us))


def _cores(quota_us: int, period_us: int) -> float | None:
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def limit_bytes(text: bytes) -> int | None:
    """Read a memory limit: `max` (v2) and a number beyond any machine (v1) are none."""
    if text.strip() == b"max":
        return None
    limit = int(text)
    return limit if 0 <= limit < UNLIMITED_BYTES else None


def parse_io_stat(text: bytes) -> Mapping[str, int]:
    """Read v2's io.stat: reads and writes by device number."""
    counts = {}
    for line in text.decode(errors="replace").splitlines():
        device, *fields = line.split()
        values = dict(field.split("=", 1) for field in fields if "=" in field)
        if {"rios", "wios"} <= values.keys():
            counts[device] = int(values["rios"]) + int(values["wios"])
    return counts


def parse_io_serviced(text: bytes) -> Mapping[str, int]:
    """Read v1's blkio.throttle.io_serviced: reads and writes by device number."""
    counts: dict[str, int] = {}
    for fields in (line.split() for line in text.decode(errors="replace").splitlines()):
        if len(fields) == 3 and fields[1] in {"Read", "Write"}:
            counts[fields[0]] = counts.get(fields[0], 0) + int(fields[2])
    return counts
