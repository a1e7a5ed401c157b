"""The files of a control group with a CPU limit, on folders that look like cgroupfs."""

import os
from pathlib import Path

import pytest
from steelyard_loadtest.server.cpu_limit import (
    LOWEST_CORES,
    PARENT,
    PERIOD_US,
    LimitError,
    Place,
    enter,
    hold,
    leave,
    write_quota,
)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """A hierarchy's root, with the servers' common group below it."""
    (tmp_path / PARENT).mkdir()
    for folder in (tmp_path, tmp_path / PARENT):
        (folder / "cgroup.subtree_control").write_text("memory pids\n")
    return tmp_path


def at(mount: Path, version: int) -> Place:
    return Place(version=version, base=mount, current=mount)


def test_without_a_limit_nothing_is_held() -> None:
    with hold(None, "server-1-8101") as held:
        assert held == ("CPU not limited", None)


def test_pauses_hold_a_limit_on_demand() -> None:
    with hold(0.15, "server-1-8101", by="pauses") as held:
        assert held == ("CPU limited to 0.15 cores by (as asked) pauses", 0.15)


def test_v2_is_given_quota_and_period_in_one_file_and_then_the_process(mount: Path) -> None:
    group = enter(at(mount, 2), "server-1-8101", 0.15)
    assert group == mount / PARENT / "server-1-8101"
    assert (group / "cpu.max").read_text() == f"3000 {PERIOD_US}"
    assert (group / "cgroup.procs").read_text() == str(os.getpid())


def test_v2_shares_the_cpu_out_all_the_way_down(mount: Path) -> None:
    enter(at(mount, 2), "server-1-8101", 0.15)
    assert (mount / "cgroup.subtree_control").read_text() == "+cpu"
    assert (mount / PARENT / "cgroup.subtree_control").read_text() == "+cpu"


def test_v2_leaves_alone_what_is_shared_out_already(mount: Path) -> None:
    (mount / "cgroup.subtree_control").write_text("cpuset cpu memory\n")
    enter(at(mount, 2), "server-1-8101", 0.15)
    assert (mount / "cgroup.subtree_control").read_text() == "cpuset cpu memory\n"


def test_v1_is_given_quota_and_period_in_two_files(mount: Path) -> None:
    group = enter(at(mount, 1), "server-1-8101", 1.5)
    assert (group / "cpu.cfs_period_us").read_text() == str(PERIOD_US)
    assert (group / "cpu.cfs_quota_us").read_text() == "30000"


def test_the_lowest_limit_is_a_quota_the_kernel_takes(mount: Path) -> None:
    group = enter(at(mount, 2), "server-1-8101", LOWEST_CORES)
    assert (group / "cpu.max").read_text() == f"1000 {PERIOD_US}"


def test_a_quota_is_changed_and_nothing_else(mount: Path) -> None:
    for version, file, quota in ((1, "cpu.cfs_quota_us", "2000"), (2, "cpu.max", f"2000 {PERIOD_US}")):
        group = enter(at(mount, version), f"server-{version}", 0.15)
        before = {each.name: each.read_text() for each in group.iterdir()}
        write_quota(group, version, 0.1)
        assert {each.name: each.read_text() for each in group.iterdir()} == before | {file: quota}


def test_a_group_that_a_killed_server_left_behind_is_taken_over(mount: Path) -> None:
    enter(at(mount, 2), "server-1-8101", 0.15)
    group = enter(at(mount, 2), "server-1-8101", 0.3)
    assert (group / "cpu.max").read_text() == f"6000 {PERIOD_US}"


def test_leaving_puts_the_process_back_where_it_was(mount: Path) -> None:
    (mount / "before").mkdir()
    place = Place(version=1, base=mount, current=mount / "before")
    leave(place, enter(place, "server-1-8101", 0.15))
    assert (mount / "before" / "cgroup.procs").read_text() == str(os.getpid())


def test_leaving_a_group_that_is_gone_is_no_error(tmp_path: Path) -> None:
    place = at(tmp_path, 1)
    group = enter(place, "server-1-8101", 0.15)
    for file in group.iterdir():
        file.unlink()
    leave(place, group)
    assert not group.exists()
    leave(place, group)


def test_a_place_without_the_files_of_a_cgroup_is_named(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match=r"cgroup\.subtree_control: No such file"):
        enter(at(tmp_path, 2), "server-1-8101", 0.15)
