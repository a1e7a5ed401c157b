"""A systemd unit on v1 and v2 trees."""

from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.readers.scope import make_reader
from steelyard_agent.readers.systemd_unit import SEARCH_AGAIN_S, UnitReader
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.cgroup import CgroupReading
from steelyard_agent.scopes.process import ProcessReading
from steelyard_agent.scopes.reading import Absent, sample_between

from ..process_scope import needs_process_scope

Plant = Callable[..., Path]

NGINX = "sys/fs/cgroup/system.slice/nginx.service"


def read(root: Path, unit: str) -> CgroupReading | ProcessReading | Absent:
    return UnitReader(unit, root=root)()


@pytest.mark.parametrize("unit", ["nginx", "nginx.service"])
def test_a_unit_is_its_control_group(plant: Plant, unit: str) -> None:
    reading = read(plant("machine", "v2-host"), unit)
    assert isinstance(reading, CgroupReading)
    assert reading.name == "/sys/fs/cgroup/system.slice/nginx.service"
    assert (reading.cpu[0].used, reading.cpu[0].limit) == (7.0, 0.5)
    assert reading.memory[0].used == 400_000_000


def test_the_machines_traffic_is_not_counted_for_a_unit(plant: Plant) -> None:
    reading = read(plant("machine", "v2-host"), "nginx")
    assert isinstance(reading, CgroupReading)
    assert reading.nics is None


def test_a_unit_in_a_slice_of_its_own_is_found(plant: Plant) -> None:
    reading = read(plant("machine", "v2-host"), "app@1.service")
    assert isinstance(reading, CgroupReading)
    assert reading.name.endswith("/user.slice/deep.slice/app@1.service")


def test_a_unit_that_does_not_run_is_absence(plant: Plant) -> None:
    assert read(plant("machine", "v2-host"), "redis") == Absent("unit redis.service is not running")


def test_a_name_that_climbs_out_of_the_tree_is_absence(plant: Plant) -> None:
    assert isinstance(read(plant("machine", "v2-host"), "../../../../etc"), Absent)


def test_a_unit_that_stops_is_absent_and_one_that_starts_again_is_another(plant: Plant) -> None:
    root = plant("machine", "v2-host")
    now_s = [0.0]
    reader = UnitReader("nginx", root=root, clock=lambda: now_s[0])
    before = reader()
    group, kept = root / NGINX, root / "kept"
    group.rename(kept)
    now_s[0] = 1.0
    assert reader() == Absent("unit nginx.service is not running")
    group.mkdir()
    for file in kept.iterdir():
        (group / file.name).write_text(file.read_text())
    now_s[0] = 2.0
    after = reader()
    assert isinstance(before, CgroupReading)
    assert isinstance(after, CgroupReading)
    assert sample_between(before, after, NOTHING) is None


def test_a_unit_that_moves_is_looked_for_in_the_whole_tree_no_more_often_than_said(plant: Plant) -> None:
    root = plant("machine", "v2-host")
    now_s = [0.0]
    reader = UnitReader("late", root=root, clock=lambda: now_s[0])
    assert isinstance(reader(), Absent)
    group = root / "sys/fs/cgroup/user.slice/late.service"
    group.mkdir()
    for name, text in (("cgroup.procs", "9\n"), ("cpu.stat", "usage_usec 1\n")):
        (group / name).write_text(text)
    seen = []
    for now_s[0] in (1.0, SEARCH_AGAIN_S):
        seen.append(isinstance(reader(), CgroupReading))
    assert seen == [False, True]


def test_where_v1_does_not_count_for_a_unit_its_oldest_process_is_read(
    plant: Plant, plant_process: Plant
) -> None:
    root = plant("machine", "v1-hybrid-host")
    plant_process(500)
    reading = read(root, "web")
    assert isinstance(reading, ProcessReading)
    assert (reading.root_pid, reading.name) == (500, "app")


@needs_process_scope
def test_the_process_scope_of_a_unit_says_process_on_the_wire(plant: Plant) -> None:
    made = make_reader("process", root=plant("machine", "v2-host"), target=Target(unit="nginx"))
    assert made.scope == "process"
    assert isinstance(made.read(), CgroupReading)


@needs_process_scope
def test_the_process_scope_needs_a_target() -> None:
    with pytest.raises(ValueError, match="a pid, a PID file, a port or a unit"):
        make_reader("process")
