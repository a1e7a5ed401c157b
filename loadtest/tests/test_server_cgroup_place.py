"""Where a CPU limited control group can be made, from texts as real machines have them."""

from pathlib import PurePosixPath

import pytest
from steelyard_loadtest.server.cgroup_place import Place, find_place

V1_MOUNTS = """\
23 1 0:22 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2_MOUNTS = """\
23 1 0:22 / / rw,relatime - ext4 /dev/vda rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate
"""


def place(version: int, base: str, current: str) -> Place:
    return Place(version=version, base=PurePosixPath(base), current=PurePosixPath(current))


def test_v1_makes_groups_below_the_one_the_process_is_in_which_keeps_an_outer_quota() -> None:
    where = find_place(V1_MOUNTS, "2:cpuacct:/\n1:cpu:/outer\n0::/\n")
    assert where == place(1, "/sys/fs/cgroup/cpu/outer", "/sys/fs/cgroup/cpu/outer")


def test_v1_at_the_root_is_the_mount_point_itself() -> None:
    assert find_place(V1_MOUNTS, "1:cpu:/\n0::/\n") == place(1, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu")


def test_v1_controllers_that_are_mounted_together_are_found_by_either_name() -> None:
    mounts = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    where = find_place(mounts, "4:cpu,cpuacct:/user.slice\n")
    assert where is not None
    assert where.base == PurePosixPath("/sys/fs/cgroup/cpu,cpuacct/user.slice")


def test_v1_goes_before_v2_whichever_is_mounted_first() -> None:
    lines = V1_MOUNTS.splitlines(keepends=True)
    for mounts in (V1_MOUNTS, "".join(reversed(lines))):
        where = find_place(mounts, "1:cpu:/\n0::/\n")
        assert where is not None
        assert where.version == 1


def test_cpuset_and_cpuacct_are_not_cpu() -> None:
    mounts = (
        "33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    )
    assert find_place(mounts, "2:cpuset:/\n1:cpuacct:/\n") is None


def test_v2_makes_groups_below_the_mount_and_remembers_where_the_process_was() -> None:
    where = find_place(V2_MOUNTS, "0::/user.slice/user-0.slice/session-1.scope\n")
    assert where == place(2, "/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope")


def test_in_a_container_the_mount_begins_at_the_process_s_group() -> None:
    mounts = "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu ro,nosuid master:17 - cgroup cgroup rw,cpu\n"
    where = find_place(mounts, "4:cpu:/docker/abc\n")
    assert where == place(1, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu")
    where = find_place(mounts, "4:cpu:/docker/abc/inner\n")
    assert where == place(1, "/sys/fs/cgroup/cpu/inner", "/sys/fs/cgroup/cpu/inner")


def test_a_path_outside_the_mount_s_root_falls_back_to_the_mount() -> None:
    mounts = "33 31 0:30 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    assert find_place(mounts, "0::/elsewhere\n") == place(2, "/sys/fs/cgroup", "/sys/fs/cgroup")


def test_a_path_may_hold_colons() -> None:
    where = find_place(V2_MOUNTS, "0::/run-r12:34.scope\n")
    assert where is not None
    assert where.current == PurePosixPath("/sys/fs/cgroup/run-r12:34.scope")


@pytest.mark.parametrize(
    ("mounts", "own"),
    [
        ("", ""),
        ("", "0::/\n"),
        (V2_MOUNTS, ""),
        (V2_MOUNTS, "garbage\n"),
        ("30 23 0:26 / /sys/fs/cgroup - cgroup2\n", "0::/\n"),
        ("23 1 0:22 / / rw,relatime - ext4 /dev/vda rw\n", "0::/\n"),
    ],
)
def test_no_hierarchy_no_place(mounts: str, own: str) -> None:
    assert find_place(mounts, own) is None
