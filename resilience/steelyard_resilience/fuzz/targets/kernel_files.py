"""The kernel's files, which a container's runtime, a driver or a hypervisor may fake badly.

Their texts alone, by the agent's parsers; and whole machines with damaged files, by its readers on trees of
files in a folder: `=== path` and the lines of that file, again and again, as in agent/tests/fixtures.
"""

import atexit
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import psutil
from steelyard_agent import cgroup_text, proc_text
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.host import HostReader
from steelyard_agent.scopes.reading import Absent
from steelyard_loadtest.machine.errors import SetupError

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.target import ACCEPTED, Target

UNREADABLE = "unreadable"

# What the parsers' docstrings say they raise; the readers turn it into "not known".
EXPECTED = (ValueError, LookupError)

HEAD = b"=== "


def targets() -> tuple[Target, ...]:
    """Return the parsers and the readers; raises SetupError where there is no checkout."""
    process = _any_of(lambda text: proc_text.parse_listeners(text, 80), proc_text.parse_pid)
    machine = _any_of(
        proc_text.parse_cpu_list, proc_text.parse_speed, proc_text.parse_stalled_s, proc_text.parse_flat
    )
    group = _any_of(
        cgroup_text.parse_mounts, cgroup_text.parse_membership, cgroup_text.cpu_max_cores,
        cgroup_text.limit_bytes, cgroup_text.parse_io_stat, cgroup_text.parse_io_serviced,
        lambda text: cgroup_text.cfs_cores(text, b"100000"), _located,
    )  # fmt: skip
    trees = _trees()
    files = {part.partition(b"\n")[2] for tree in trees for part in tree.split(HEAD)[1:]}
    readers = "a machine with damaged files, by the agent's readers"
    return (
        Target("procfs", "a process's files (/proc, /sys)", process, PROC),
        Target("machine", "a machine's files (/proc, /sys)", machine, sorted(files)),
        Target("cgroup", "a control group's files", group, [*CGROUP, *sorted(files)]),
        Target("agent-readers", readers, _machines(trees), trees),
    )


PROC = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 98765 1\n",
    b"4711\n",
)
# What is in none of the trees.
CGROUP = (
    b"32 30 0:28 /docker/ab\\040c /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    b"0::/system.slice/nginx.service\n4:cpu,cpuacct:/docker/abc (deleted)\n",
    b"9223372036854771712\n",
)


def _any_of(*parsers: Callable[[bytes], object]) -> Callable[[bytes], str]:
    def judge(data: bytes) -> str:
        readable = 0
        for parser in parsers:
            try:
                readable += bool(parser(data))
            except EXPECTED:
                continue
        return ACCEPTED if readable else UNREADABLE

    return judge


def _located(data: bytes) -> object:
    membership, mounts = data.split(b"\n", 1) if b"\n" in data else (data, data)
    own, there = cgroup_text.parse_membership(membership), cgroup_text.parse_mounts(mounts)
    places = [cgroup_text.locate(controller, there, own) for controller in ("cpu", "memory", "")]
    return [place.upwards for place in places if place is not None]


def _trees() -> list[bytes]:
    folder = CHECKOUT / "agent" / "tests" / "fixtures"
    trees = {file.stem: file.read_bytes() for file in sorted(folder.glob("*.tree"))}
    groups = [tree for name, tree in trees.items() if name.startswith("v")]
    if not groups:
        raise SetupError(f"fuzzing needs a checkout of Steelyard: no trees in {folder}")
    hardware = b"".join(tree for name, tree in trees.items() if not name.startswith("v"))
    return [hardware + group for group in groups]


def _machines(seeds: Sequence[bytes]) -> Callable[[bytes], str]:
    # No path that is not an example's: an edited one could lead out of the folder.
    heads = {part.partition(b"\n")[0] for seed in seeds for part in seed.split(HEAD)[1:]}
    root = temporary_folder()

    def judge(data: bytes) -> str:
        _plant(data, root, heads)
        clock: Callable[[], float] = iter(range(1, 100)).__next__
        host = HostReader(root=root, extras=True, clock=clock)
        group = CgroupReader(root=root, extras=True, count_io=True, clock=clock)
        before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, f"{root}/proc"
        try:
            for _ in range(2):
                machine, own = host(), group()
        finally:
            psutil.PROCFS_PATH = before
        known = [machine.cores, machine.cpu_busy_s, machine.memory, machine.nics, machine.disk_busy_s]
        return "a column is null" if None in known or isinstance(own, Absent) else ACCEPTED

    return judge


def _plant(tree: bytes, root: Path, heads: Collection[bytes]) -> None:
    for left in root.iterdir():
        shutil.rmtree(left, ignore_errors=True)
    for part in tree.split(HEAD)[1:]:
        head, _, text = part.partition(b"\n")
        if head not in heads:
            continue
        path, arrow, target = head.decode().partition(" -> ")
        place = root / path.strip("/")
        if os.path.lexists(place):
            continue
        with contextlib.suppress(OSError):  # a file stands where two trees in one want a folder
            place.parent.mkdir(parents=True, exist_ok=True)
            if arrow:
                place.symlink_to(target)
            elif path.endswith("/"):
                place.mkdir()
            else:
                place.write_bytes(text)


def temporary_folder() -> Path:
    """Make a folder that goes with this process, in memory where there is such a file system."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own below it; files there cost no disk
    folder = Path(tempfile.mkdtemp(prefix="steelyard-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
