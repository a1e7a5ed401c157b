"""The location of control groups, and the content of their files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_agent import cgroup_text
from steelyard_agent.cgroup_text import Cgroup, Mount

V2 = b"31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
V1_CPU = b"32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
HYBRID_V2 = b"33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"


def folder(controller: str, mountinfo: bytes, membership: bytes) -> str | None:
    group = cgroup_text.locate(
        controller, cgroup_text.parse_mounts(mountinfo), cgroup_text.parse_membership(membership)
    )
    return None if group is None else group.folder


def test_v2_has_one_group_for_all_controllers() -> None:
    for controller in ("cpu", "memory"):
        assert folder(controller, V2, b"0::/a/b\n") == "/sys/fs/cgroup/a/b"


def test_where_both_are_mounted_a_controller_is_where_v1_has_it() -> None:
    membership = b"2:cpu,cpuacct:/x\n0::/y\n"
    assert folder("cpuacct", HYBRID_V2 + V1_CPU, membership) == "/sys/fs/cgroup/cpu,cpuacct/x"
    assert folder("memory", HYBRID_V2 + V1_CPU, membership) == "/sys/fs/cgroup/unified/y"


def test_the_topmost_group_is_the_mount_point() -> None:
    assert folder("cpu", V2, b"0::/\n") == "/sys/fs/cgroup"


def test_a_containers_mount_begins_at_its_own_group() -> None:
    mounted = V1_CPU.replace(b" / /sys", b" /docker/0a /sys")
    assert folder("cpu", mounted, b"2:cpu,cpuacct:/docker/0a/inner\n") == "/sys/fs/cgroup/cpu,cpuacct/inner"


@pytest.mark.parametrize("path", [b"/../other", b"/elsewhere"])
def test_a_group_outside_of_what_is_mounted_is_the_mount_point_and_not_exact(path: bytes) -> None:
    mounts = cgroup_text.parse_mounts(V2.replace(b" / /sys", b" /docker /sys"))
    group = cgroup_text.locate("cpu", mounts, cgroup_text.parse_membership(b"0::" + path + b"\n"))
    assert group is not None
    assert (group.folder, group.exact) == ("/sys/fs/cgroup", False)


def test_without_groups_there_is_no_group() -> None:
    assert folder("cpu", b"22 27 0:21 / /proc rw - proc proc rw\n", b"0::/\n") is None
    assert folder("cpu", V2, b"") is None


def test_spaces_in_a_mount_point_are_escaped() -> None:
    assert cgroup_text.parse_mounts(V2.replace(b"/sys/fs/cgroup", rb"/my\040groups"))[0].point == "/my groups"


def test_a_colon_in_a_path_and_a_removed_group_are_read() -> None:
    assert cgroup_text.parse_membership(b"0::/a:b (deleted)\n4:name=systemd:/x\n") == {
        "": "/a:b",
        "name=systemd": "/x",
    }


def test_limits_are_looked_for_up_to_the_mount_point() -> None:
    mount = Mount(version=2, controllers=frozenset(), root="/", point="/cg")
    assert [group.folder for group in Cgroup(mount=mount, path="/a/b").upwards] == ["/cg/a/b", "/cg/a", "/cg"]
    assert [group.folder for group in Cgroup(mount=mount, path="/").upwards] == ["/cg"]


def test_a_quota_is_in_cores() -> None:
    assert cgroup_text.cpu_max_cores(b"150000 100000\n") == 1.5
    assert cgroup_text.cpu_max_cores(b"max 100000\n") is None
    assert cgroup_text.cfs_cores(b"20000\n", b"20000\n") == 1.0
    assert cgroup_text.cfs_cores(b"-1\n", b"100000\n") is None


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        (b"2147483648\n", 2147483648), (b"max\n", None), (b"9223372036854771712\n", None),
        (b"9223372036854710272\n", None), (b"0\n", 0),
    ],
)  # fmt: skip
def test_a_memory_limit_beyond_any_machine_is_none(text: bytes, limit: int | None) -> None:
    assert cgroup_text.limit_bytes(text) == limit


def test_operations_are_reads_and_writes_by_device() -> None:
    assert cgroup_text.parse_io_stat(b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n8:16 \n") == {
        "8:0": 7
    }
    assert cgroup_text.parse_io_serviced(b"8:0 Read 3\n8:0 Write 4\n8:0 Sync 9\n8:0 Total 7\nTotal 7\n") == {
        "8:0": 7
    }


@given(st.binary(max_size=200))
def test_garbage_has_no_group(text: bytes) -> None:
    group = cgroup_text.locate("cpu", cgroup_text.parse_mounts(text), cgroup_text.parse_membership(text))
    assert group is None or group.folder
