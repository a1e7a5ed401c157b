"""For how long a machine, a container, a process and a replaced group have been up."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from steelyard_agent.agent import Sampler
from steelyard_agent.readers.cgroup import CgroupReader
from steelyard_agent.readers.host import HostReader
from steelyard_agent.readers.process import ProcessReader
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.sample import NOTHING
from steelyard_agent.scopes.cgroup import CgroupReading

Plant = Callable[..., Path]


def test_a_machine_is_up_since_its_boot(plant: Plant) -> None:
    root = plant("machine")
    assert HostReader(root=root)().up_s is None
    (root / "proc/uptime").write_text("5025.25 9000.10\n")
    assert HostReader(root=root)().up_s == 5025.25


@pytest.mark.parametrize("name", ["tini", "a (b) c"])
def test_a_container_is_up_since_its_first_process(plant: Plant, name: str) -> None:
    root = plant("machine", "v2-container")
    (root / "proc/1").mkdir()
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME) - 12
    (root / "proc/1/stat").write_text(f"1 ({name}) S {'0 ' * 18}{int(began_s * 100)} 4096\n")
    reading = CgroupReader(root=root)()
    assert isinstance(reading, CgroupReading)
    assert reading.up_s is not None
    assert 11.9 < reading.up_s < 60


@pytest.mark.parametrize("text", [None, "", "1 (sh) S 1 2 3", f"1 (sh) S {'x ' * 30}"])
def test_who_may_not_look_at_process_1_knows_nothing(plant: Plant, text: str | None) -> None:
    root = plant("machine", "v2-container")
    if text is not None:
        (root / "proc/1").mkdir()
        (root / "proc/1/stat").write_text(text)
    reading = CgroupReader(root=root)()
    assert isinstance(reading, CgroupReading)
    assert reading.up_s is None


def test_a_process_is_up_since_its_start() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            reading = ProcessReader(Target(pid=sleeper.pid))()
        finally:
            sleeper.kill()
    assert 0.0 <= getattr(reading, "up_s", -1.0) < 60


def test_a_group_that_took_anothers_place_is_up_since_then(plant: Plant) -> None:
    reading = CgroupReader(root=plant("machine", "v2-container"))()
    assert isinstance(reading, CgroupReading)
    source = iter(replace(reading, at_s=100.0 + t, identity=(t >= 3,)) for t in range(6))
    sampler = Sampler(source.__next__, NOTHING)
    taken = [sampler.step() for _ in range(6)]
    assert [None if each is None else each.up_s for each in taken] == [None, None, None, None, 1.0, 2.0]
