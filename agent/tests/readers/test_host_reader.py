"""The host scope's reader, on fixture trees and on this machine's own."""

import logging
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from steelyard_agent.readers.files import ColumnReader
from steelyard_agent.readers.host import HostReader
from steelyard_agent.readers.machine_counters import DEVICE_LIST_AGE_S
from steelyard_agent.sample import NOTHING, Sample
from steelyard_agent.scopes.host import HostReading
from steelyard_agent.scopes.machine_utilization import DiskCounters, MemoryGauge, NicCounters
from steelyard_agent.scopes.reading import sample_between

Plant = Callable[..., Path]

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def failing() -> int:
    raise PermissionError(13, "not for you")


def test_a_failing_reader_is_none_and_says_so_once_each_way(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    columns = ColumnReader()
    assert [columns.read("io", failing), columns.read("io", failing)] == [None, None]
    assert [columns.read("io", lambda: 1), columns.read("io", lambda: 2)] == [1, 2]
    assert [entry.getMessage() for entry in caplog.records] == [
        "io cannot be read (PermissionError: [Errno 13] not for you): its column is null until it can",
        "io can be read again",
    ]


def test_a_machine_is_read_whole(plant: Plant) -> None:
    reading = HostReader(root=plant("machine"), clock=lambda: 7.0)()
    assert reading.at_s == 7.0
    assert reading.cores == 4
    assert reading.memory == MemoryGauge(total_bytes=8_000_000 * 1024, available_bytes=6_000_000 * 1024)
    assert reading.nics == {
        "lo": NicCounters(kind="loopback", rx_bytes=5_000_000, tx_bytes=5_000_000, bytes_per_s=None),
        "eth0": NicCounters(kind="hardware", rx_bytes=1000, tx_bytes=2000, bytes_per_s=125_000_000),
    }


def test_memory_in_zfss_cache_is_available_but_for_its_least_size(plant: Plant) -> None:
    memory = HostReader(root=plant("machine", "zfs"))().memory
    assert memory is not None
    assert memory.available_bytes == 6_000_000 * 1024 + 1_600_000_000 - 250_000_000


def test_a_cache_larger_than_the_memory_in_use_is_another_machines(plant: Plant) -> None:
    root = plant("machine", "zfs")
    stats = root / "proc/spl/kstat/zfs/arcstats"
    stats.write_text(stats.read_text().replace("1600000000", "160000000000"))
    memory = HostReader(root=root)().memory
    assert memory is not None
    assert memory.available_bytes == 6_000_000 * 1024
    stats.write_text("garbage\n")
    assert HostReader(root=root)().memory is None


def test_cpu_counts_neither_idle_nor_iowait_nor_guest_time(plant: Plant) -> None:
    reading = HostReader(root=plant("machine"))()
    assert reading.cpu_busy_s == pytest.approx((100 + 20 + 50 + 3 + 2) / TICKS_PER_S)
    assert reading.cpu_stolen_s == pytest.approx(5 / TICKS_PER_S)


def test_whole_disks_are_neither_partitions_nor_stacked_on_others(plant: Plant) -> None:
    disks = HostReader(root=plant("machine", "disks"))().disks
    assert disks == {
        "nvme0n1": DiskCounters(busy_s=2.5, requests_s=0.15, in_flight=0),
        "sda": DiskCounters(busy_s=1.5, requests_s=0.158, in_flight=2),
        "cciss/c0d0": DiskCounters(busy_s=0.7, requests_s=0.15, in_flight=0),
    }


def test_a_speed_that_the_nic_does_not_know_is_none(plant: Plant) -> None:
    nics = HostReader(root=plant("machine", "nics"))().nics
    assert nics is not None
    assert {name: (nic.kind, nic.bytes_per_s) for name, nic in nics.items()} == {
        "lo": ("loopback", None),
        "eth0": ("hardware", None),
        "eth1": ("hardware", None),
        "eth2": ("hardware", 1_250_000_000),
        "eth3": ("hardware", None),
        "bond0": ("virtual", None),
    }


@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("proc/stat", "cpu_busy_s"), ("proc/meminfo", "memory"), ("proc/net/dev", "nics"),
        ("proc/diskstats", "disks"), ("sys/devices/system/cpu/online", "cores"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["", "garbage\ngarbage\ngarbage: x\n"])
def test_an_empty_or_garbled_file_costs_its_column_only(
    plant: Plant, file: str, column: str, text: str
) -> None:
    root = plant("machine")
    (root / file).write_text(text)
    columns = {"cpu_busy_s", "memory", "nics", "disks", "cores"}
    reading = HostReader(root=root)()
    assert not getattr(reading, column)
    assert all(getattr(reading, other) for other in columns - {column})


def test_without_a_file_there_is_no_reading_of_its_column(plant: Plant) -> None:
    root = plant("machine")
    for file in ("proc/stat", "proc/meminfo", "proc/net/dev", "sys/devices/system/cpu/online"):
        (root / file).unlink()
    reading = HostReader(root=root)()
    assert (reading.cpu_busy_s, reading.memory, reading.nics, reading.cores) == (None, None, None, None)
    assert reading.disks


def test_a_machine_without_sys_has_no_disks_and_no_speeds(plant: Plant) -> None:
    root = plant("machine")
    shutil.rmtree(root / "sys")
    reading = HostReader(root=root)()
    assert reading.disks == {}
    assert reading.nics is not None
    assert reading.nics["eth0"].bytes_per_s is None


@pytest.mark.parametrize(
    "again_s", [DEVICE_LIST_AGE_S, -5.0], ids=["a minute later", "the clock stepped back"]
)
def test_a_disk_that_is_plugged_in_counts_after_the_next_look(plant: Plant, again_s: float) -> None:
    root = plant("machine")
    now_s = [0.0]
    reader = HostReader(root=root, clock=lambda: now_s[0])
    reader()
    (root / "sys/block/sda1/device").mkdir(parents=True)
    whole = []
    for now_s[0] in (1.0, again_s):
        disks = reader().disks
        assert disks is not None
        whole.append("sda1" in disks)
    assert whole == [False, True]


def sampled(reader: HostReader) -> tuple[Sample | None, HostReading]:
    before, after = reader(), reader()
    return sample_between(before, after, NOTHING), after


def ticking(step_s: float) -> list[float]:
    return [100.0, 100.0 + step_s]


@pytest.mark.parametrize("step_s", [0.0, -1.0], ids=["no time", "the clock stepped back"])
def test_two_readings_without_time_between_them_are_no_sample(plant: Plant, step_s: float) -> None:
    times = iter(ticking(step_s))
    assert sampled(HostReader(root=plant("machine"), clock=lambda: next(times)))[0] is None


def test_devices_that_come_and_go_between_readings_leave_the_others_figures(plant: Plant) -> None:
    root = plant("machine")
    times = iter(ticking(1.0))
    reader = HostReader(root=root, clock=lambda: next(times))
    before = reader()
    plant("machine", "disks", "nics")
    (root / "proc/diskstats").write_text("   8       0 sda 1 0 8 1 1 0 4 5 0 2000 150 0 0 0 0 0 0\n")
    taken = sample_between(before, reader(), NOTHING)
    assert taken is not None
    assert taken.utilization.io == 0.5
    assert taken.utilization.net == 0.0


def test_a_counter_that_wraps_is_null_for_one_interval(plant: Plant) -> None:
    root = plant("machine")
    times = iter([1.0, 2.0, 3.0])
    reader = HostReader(root=root, clock=lambda: next(times))
    busy_ms = [2**32 - 100, 400, 700]
    readings: list[HostReading] = []
    for busy in busy_ms:
        (root / "proc/diskstats").write_text(
            f"8 0 sda 1 0 8 {10 * len(readings)}00 1 0 4 5 0 {busy} 150 0 0 0 0 0 0\n"
        )
        readings.append(reader())
    shares = [sample_between(a, b, NOTHING) for a, b in pairwise(readings)]
    assert [one.utilization.io if one else None for one in shares] == [None, pytest.approx(0.3)]
    assert [one.utilization.cpu if one else None for one in shares] == [0.0, 0.0]


def test_pressure_is_read_only_as_an_extra_and_only_where_it_exists(plant: Plant) -> None:
    root = plant("machine")
    assert HostReader(root=root)().stalled_s == {}
    assert HostReader(root=root, extras=True)().stalled_s == {"cpu": 1.0, "memory": 0.0, "io": 2.5}
    shutil.rmtree(root / "proc/pressure")
    assert HostReader(root=root, extras=True)().stalled_s == {}


def test_this_machine_reads_as_psutil_sees_it() -> None:
    reading = HostReader()()
    assert reading.nics is not None
    assert reading.nics["lo"].kind == "loopback"
    assert reading.cores == psutil.cpu_count()
    assert reading.memory is not None
    assert reading.memory.total_bytes == psutil.virtual_memory().total
    times = psutil.cpu_times()
    busy_s = times.user + times.nice + times.system + times.irq + times.softirq
    assert reading.cpu_busy_s == pytest.approx(busy_s, rel=0.01)
