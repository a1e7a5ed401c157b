"""Puts this process into a control group with a CPU quota, v1 or v2, and takes it out again."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.server.cgroup_place import Place, find_place

PARENT = "steelyard-demo"
# A group that used up its quota stands still until the period ends: the kernel's 100 ms would put pauses of
# 85 ms into the latencies of a server of 0.15 cores, 20 ms makes them 17. No quota may be under 1 ms.
PERIOD_US = 20_000


class CgroupUnavailableError(Exception):
    """No group can be made here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group that this process is in: its directory, its version, and where the process was before."""

    directory: Path
    version: int
    before: Path

    def leave(self) -> None:
        """Go back to where the process was and remove the group, unless others are still in it."""
        with contextlib.suppress(OSError):
            _write(self.before / "cgroup.procs", str(os.getpid()))
        for directory in (self.directory, self.directory.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()


def enter(name: str, limit_cores: float) -> Group:
    """Make (or take over: a killed server leaves one behind) the group `name` and move this process in.

    Raises CgroupUnavailableError.
    """
    if os.geteuid() != 0:
        raise CgroupUnavailableError("not root")
    try:
        place = find_place(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
        if place is None:
            raise CgroupUnavailableError("no cpu controller is mounted")
        return enter_place(place, name, limit_cores)
    except OSError as error:
        raise CgroupUnavailableError(f"{error.filename or 'cgroup'}: {error.strerror}") from error


def enter_place(place: Place, name: str, limit_cores: float) -> Group:
    """Make the group below a known place and move this process in. Raises OSError."""
    base = Path(place.base)
    directory = base / PARENT / name
    if place.version == 2:
        _share_out_cpu(base)
        directory.parent.mkdir(exist_ok=True)
        _share_out_cpu(directory.parent)
    directory.mkdir(parents=True, exist_ok=True)
    quota_us = max(round(limit_cores * PERIOD_US), 1000)
    if place.version == 2:
        _write(directory / "cpu.max", f"{quota_us} {PERIOD_US}")
    else:
        _write(directory / "cpu.cfs_quota_us", "-1")  # an old quota may not fit the period
        _write(directory / "cpu.cfs_period_us", str(PERIOD_US))
        _write(directory / "cpu.cfs_quota_us", str(quota_us))
    _write(directory / "cgroup.procs", str(os.getpid()))
    return Group(directory=directory, version=place.version, before=Path(place.current))


def _share_out_cpu(directory: Path) -> None:
    shared_out = directory / "cgroup.subtree_control"
    if "cpu" not in shared_out.read_text().split():
        _write(shared_out, "+cpu")


def _write(file: Path, text: str) -> None:
    with file.open("w") as stream:
        stream.write(text)
