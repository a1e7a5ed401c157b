"""Holds a CPU limit by a control group with a quota, v1 or v2; where none can be made, says why."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOWEST_CORES = 0.05  # a cgroup's quota of 1 ms in 20 ms

PARENT = "steelyard-demo"
# A group that used up its quota stands still until the period ends: the kernel's 100 ms would put pauses of
# 85 ms into the latencies of a server of 0.15 cores, 20 ms makes them 17. No quota may be under 1 ms.
PERIOD_US = 20_000


class LimitError(Exception):
    """No group can be made here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory under which groups may be made, and the one that the process is in now."""

    version: int
    base: Path
    current: Path


class Held(NamedTuple):
    """A sentence about the limit, and what of it the process has to hold itself (see `pace`)."""

    told: str
    paced_cores: float | None = None


@contextlib.contextmanager
def hold(limit_cores: float | None, group: str) -> Iterator[Held]:
    """Hold this process and its children to limit_cores by a control group of this name, where one can be."""
    if limit_cores is None:
        yield Held("CPU not limited")
        return
    told = f"CPU limited to {limit_cores:g} cores by"
    try:
        place = _place()
        directory = enter(place, group, limit_cores)
    except LimitError as error:
        yield Held(f"{told} (no cgroup: {error}) pauses", limit_cores)
        return
    try:
        yield Held(f"{told} cgroup {directory} (v{place.version})")
    finally:
        leave(place, directory)


def _place() -> Place:
    # Only here: where no group is made, as in the demo server's image, no agent need be installed.
    from steelyard_agent.cgroup_text import locate, parse_membership, parse_mounts

    if os.geteuid() != 0:
        raise LimitError("not root")
    own = Path("/proc/self")
    mounts = parse_mounts((own / "mountinfo").read_bytes())
    group = locate("cpu", mounts, parse_membership((own / "cgroup").read_bytes()))
    if group is None:
        raise LimitError("no cpu controller is mounted")
    current, version = Path(group.folder), group.mount.version
    # v1: nested, to keep an outer quota. In v2 a group with processes may not share out a controller, apart
    # from the root.
    return Place(version=version, base=current if version == 1 else Path(group.mount.point), current=current)


def enter(place: Place, name: str, limit_cores: float) -> Path:
    """Make (or take over: a killed server leaves one behind) the group `name`, and move this process in.

    Returns its directory. Raises LimitError, which says why no group can be made here.
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
    """Go back to where the process was and remove the group, unless others are still in it."""
    with contextlib.suppress(OSError):
        (place.current / "cgroup.procs").write_text(str(os.getpid()))
    for directory in (group, group.parent):
        with contextlib.suppress(OSError):
            directory.rmdir()


def write_quota(directory: Path, version: int, limit_cores: float) -> None:
    """Tell a group that has its period how much CPU it may use. Raises OSError."""
    quota_us = max(round(limit_cores * PERIOD_US), 1000)
    if version == 2:
        (directory / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
    else:
        (directory / "cpu.cfs_quota_us").write_text(str(quota_us))


def _share_out_cpu(directory: Path) -> None:
    shared_out = directory / "cgroup.subtree_control"
    if "cpu" not in shared_out.read_text().split():
        shared_out.write_text("+cpu")
