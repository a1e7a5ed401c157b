"""Holds a CPU limit by a control group with a quota, v1 or v2; if none can be made, returns the reason."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOWEST_CORES = 0.05  # a cgroup's quota of 1 ms in 20 ms

PARENT = "steelyard-demo"
# A group that has used up its quota stops until the period ends. The kernel's 100 ms would put pauses of 85
# ms into the latencies of a server of 0.15 cores; 20 ms makes them 17. No quota may be under 1 ms.
PERIOD_US = 20_000


class LimitError(Exception):
    """No group can be made here; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory under which groups may be made, and the process's present one."""

    version: int
    base: Path
    current: Path


class Held(NamedTuple):
    """A sentence about the limit, and the part of it that the process has to hold itself (see `pace`)."""

    text: str
    paced_cores: float | None = None


@contextlib.contextmanager
def hold(limit_cores: float | None, group: str, *, by: str = "quota") -> Iterator[Held]:
    """Hold this process and its children to limit_cores by a control group of this name, if possible.

    by `pauses`: without a group, even if one can be made.
    """
    if limit_cores is None:
        yield Held("CPU not limited")
        return
    text = f"CPU limited to {limit_cores:g} cores by"
    if by == "pauses":
        yield Held(f"{text} (as asked) pauses", limit_cores)
        return
    try:
        place = _place()
        directory = enter(place, group, limit_cores)
    except LimitError as error:
        yield Held(f"{text} (no cgroup: {error}) pauses", limit_cores)
        return
    try:
        yield Held(f"{text} cgroup {directory} (v{place.version})")
    finally:
        leave(place, directory)


def _place() -> Place:
    # Imported here, because the demo server's image makes no group and has no agent.
    from steelyard_agent.cgroup_text import locate, parse_membership, parse_mounts

    if os.geteuid() != 0:
        raise LimitError("not root")
    own = Path("/proc/self")
    mounts = parse_mounts((own / "mountinfo").read_bytes())
    group = locate("cpu", mounts, parse_membership((own / "cgroup").read_bytes()))
    if group is None:
        raise LimitError("no cpu controller is mounted")
    current, version = Path(group.folder), group.mount.version
    # v1: nested, to keep an outer quota. In v2 only the root may have both processes and controllers for
    # children.
    return Place(version=version, base=current if version == 1 else Path(group.mount.point), current=current)


def enter(place: Place, name: str, limit_cores: float) -> Path:
    """Make the group `name`, or take over one left by a killed server, and move this process in.

    Returns its directory. Raises LimitError with the reason if no group can be made here.
    """
    directory = place.base / PARENT / name
    try:
        if place.version == 2:
            _share_out_cpu(place.base)
            directory.parent.mkdir(exist_ok=True)
            _share_out_cpu(directory.parent)
        directory.mkdir(parents=True, exist_ok=True)
        if place.version == 1:
            (directory / "cpu.cfs_quota_us").write_text("-1")  # an old quota may not fit the period
            (directory / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        write_quota(directory, place.version, limit_cores)
        (directory / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as error:
        raise LimitError(f"{error.filename or 'cgroup'}: {error.strerror}") from error
    return directory


def leave(place: Place, group: Path) -> None:
    """Return to the process's previous group and remove this one, unless others are still in it."""
    with contextlib.suppress(OSError):
        (place.current / "cgroup.procs").write_text(str(os.getpid()))
    for directory in (group, group.parent):
        with contextlib.suppress(OSError):
            directory.rmdir()


def write_quota(directory: Path, version: int, limit_cores: float) -> None:
    """Set the quota of a group that has its period. Raises OSError."""
    quota_us = max(round(limit_cores * PERIOD_US), 1000)
    if version == 2:
        (directory / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (directory / "cpu.cfs_quota_us").write_text(str(quota_us))


def _share_out_cpu(directory: Path) -> None:
    shared_out = directory / "cgroup.subtree_control"
    if "cpu" not in shared_out.read_text().split():
        shared_out.write_text("+cpu")
