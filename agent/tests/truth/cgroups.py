"""Makes a cgroup with limits, in the kernel's version, and removes it again.

I/O only, Linux only, root only. The group is made at the top of this process's
view of each hierarchy: its parents then have no limits of their own.
"""

import os
import shlex
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard_agent import cgroup_text

CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio")
"""The controllers of version 1 in a sample; in version 2 cpuacct is cpu, and blkio is io."""

VERSION_2 = "unified"
"""The mount of the version 2 hierarchy in `_mounted`."""

# The kernel's default period. Stress-ng's slices fit into a tenth of a second, too.
PERIOD_US = 100_000

# The largest shares: a group gets its quota, whatever else runs on the machine.
MOST_SHARES, MOST_WEIGHT = "262144", "10000"

# A group can be removed a moment after its last process has ended.
PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup: its folder in each of its hierarchies."""

    version: int
    folders: tuple[Path, ...]

    @property
    def prefix(self) -> Sequence[str]:
        """Return the words before a command that run it in the group."""
        enter = [f"echo $$ >{shlex.quote(str(folder / 'cgroup.procs'))}" for folder in self.folders]
        return ("sh", "-ec", "; ".join([*enter, 'exec "$@"']), "sh")

    @contextmanager
    def nested(self) -> Iterator["Group"]:
        """Make a group inside without limits of its own."""
        with _made(self.version, tuple(folder / "nested" for folder in self.folders)) as group:
            yield group


def why_not() -> str | None:
    """Return why no cgroup with a quota can be made here; None if one can."""
    if os.geteuid() != 0:
        return "making a cgroup needs root"
    try:
        with limited(cores=1.0):
            return None
    except OSError as error:
        return f"no cgroup with a quota can be made here: {error}"


def version() -> str:
    """Return the version of the groups made here."""
    return "v1" if _is_version_1(_mounted()) else "v2"


@contextmanager
def limited(*, cores: float | None = None, memory_bytes: int | None = None) -> Iterator[Group]:
    """Make a cgroup with these limits; at the end kill its remaining processes, and remove it."""
    hierarchies = _mounted()
    name = f"steelyard-truth-{os.getpid()}"
    quota_us = int((cores or 0.0) * PERIOD_US)
    if _is_version_1(hierarchies):
        # A mount often has several controllers (cpu,cpuacct): one folder then.
        tops = sorted({hierarchies[controller] for controller in CONTROLLERS if controller in hierarchies})
        with _made(1, tuple(top / name for top in tops)) as group:
            if cores:
                (hierarchies["cpu"] / name / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (hierarchies["cpu"] / name / "cpu.cfs_quota_us").write_text(str(quota_us))
                (hierarchies["cpu"] / name / "cpu.shares").write_text(MOST_SHARES)
            if memory_bytes:
                (hierarchies["memory"] / name / "memory.limit_in_bytes").write_text(str(memory_bytes))
            yield group
        return
    if VERSION_2 not in hierarchies:
        raise FileNotFoundError("no cgroup hierarchy with cpu and memory is mounted")
    top = hierarchies[VERSION_2]
    with _delegated(top), _made(2, (top / name,)) as group:
        if cores:
            (top / name / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            (top / name / "cpu.weight").write_text(MOST_WEIGHT)
        if memory_bytes:
            (top / name / "memory.max").write_text(str(memory_bytes))
        yield group


def count_io(group: Group) -> None:
    """Make the kernel count the group's reads and writes, on every disk.

    Since Linux 6.10 version 1 counts only disks that had a rule once; this one never bites.
    """
    disks = [disk.parent / "dev" for disk in Path("/sys/block").glob("*/device")]
    for rule in (folder / "blkio.throttle.write_iops_device" for folder in group.folders):
        for disk in disks if rule.exists() else ():
            rule.write_text(f"{disk.read_text().strip()} 4000000000")


def _is_version_1(hierarchies: Mapping[str, Path]) -> bool:
    return "cpu" in hierarchies and "memory" in hierarchies


def _mounted() -> Mapping[str, Path]:
    """Return the mount of each controller's hierarchy."""
    hierarchies: dict[str, Path] = {}
    for mount in cgroup_text.parse_mounts(Path("/proc/self/mountinfo").read_bytes()):
        for controller in mount.controllers or (VERSION_2,):
            hierarchies.setdefault(controller, Path(mount.point))
    return hierarchies


@contextmanager
def _delegated(top: Path) -> Iterator[None]:
    # A group of version 2 has a controller only if its parent hands it down.
    control = top / "cgroup.subtree_control"
    missing = {"cpu", "memory", "io"} - set(control.read_text().split())
    with ExitStack() as undo:
        for controller in sorted(missing):
            control.write_text(f"+{controller}")
            undo.callback(control.write_text, f"-{controller}")
        yield


@contextmanager
def _made(version: int, folders: tuple[Path, ...]) -> Iterator[Group]:
    with ExitStack() as undo:
        for folder in folders:
            folder.mkdir()
            undo.callback(_remove, folder)
        yield Group(version=version, folders=folders)


def _remove(folder: Path) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while True:
        for pid in (folder / "cgroup.procs").read_text().split():
            if int(pid) > 0:  # 0 is a process of another namespace; to kill it would be to kill ourselves
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.05)
