"""The texts of the kernel's files, which a container's runtime, a driver or a hypervisor may fake badly.

agent/tests/readers try the agent's readers on damaged files, one by one.
"""

from collections.abc import Callable

from steelyard_agent import cgroup_text, kernel_text
from steelyard_loadtest.machine.errors import SetupError

from steelyard_resilience import CHECKOUT
from steelyard_resilience.fuzz.target import ACCEPTED, Target

UNREADABLE = "unreadable"

# The parsers' documented exceptions; the readers turn them into "not known".
EXPECTED = (ValueError, LookupError)


def targets() -> tuple[Target, ...]:
    """Return the parsers; raises SetupError without a checkout."""
    process = _any_of(lambda text: kernel_text.parse_listeners(text, 80), kernel_text.parse_pid)
    machine = _any_of(
        kernel_text.parse_cpu_list,
        kernel_text.parse_speed,
        kernel_text.parse_stalled_s,
        kernel_text.parse_flat,
    )
    group = _any_of(
        cgroup_text.parse_mounts, cgroup_text.parse_membership, cgroup_text.cpu_max_cores,
        cgroup_text.limit_bytes, cgroup_text.parse_io_stat, cgroup_text.parse_io_serviced,
        lambda text: cgroup_text.cfs_cores(text, b"100000"), _located,
    )  # fmt: skip
    files = _files()
    return (
        Target("procfs", "a process's files (/proc, /sys)", process, PROC),
        Target("machine", "a machine's files (/proc, /sys)", machine, files),
        Target("cgroup", "a control group's files", group, [*CGROUP, *files]),
    )


PROC = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 98765 1\n",
    b"4711\n",
)
# Texts missing in all of the trees.
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


def _files() -> list[bytes]:
    """Return the files of agent/tests/fixtures; a tree is a sequence of `=== path` and that file's text."""
    folder = CHECKOUT / "agent" / "tests" / "fixtures"
    trees = [file.read_bytes() for file in folder.glob("*.tree")]
    if not trees:
        raise SetupError(f"fuzzing needs a checkout of Steelyard: no trees in {folder}")
    return sorted({part.partition(b"\n")[2] for tree in trees for part in tree.split(b"=== ")[1:]})
