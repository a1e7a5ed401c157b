"""The host scope's readers, on small /proc and /sys trees and on this machine's own."""

import logging
import os
from pathlib import Path

import psutil
import pytest
from steelyard_agent.reading import MemoryGauge, NicCounters
from steelyard_agent.readings.columns import Columns
from steelyard_agent.readings.host import HARDWARE_AGE_S, HostReader

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def failing() -> int:
    raise PermissionError(13, "not for you")


def test_a_failing_reader_is_none_and_says_so_once_each_way(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    columns = Columns()
    assert [columns.read("io", failing), columns.read("io", failing)] == [None, None]
    assert [columns.read("io", lambda: 1), columns.read("io", lambda: 2)] == [1, 2]
    assert [entry.getMessage() for entry in caplog.records] == [
        "io cannot be read (PermissionError: [Errno 13] not for you): its column is null until it can",
        "io can be read again",
    ]


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a disk, its partition, a logical volume on it and no NIC but loopback."""
    (tmp_path / "sys/block/vda/device").mkdir(parents=True)
    (tmp_path / "sys/block/dm-0").mkdir()
    proc = tmp_path / "proc"
    (proc / "net").mkdir(parents=True)
    (proc / "stat").write_text("cpu  100 20 50 9000 800 3 2 5 40 0\ncpu0 100 20 50 9000 800 3 2 5 40 0\n")
    memory = {"MemTotal": 8000, "MemFree": 1000, "MemAvailable": 6000, "Buffers": 0, "Cached": 4000}
    memory |= {"Active": 0, "Inactive": 0, "Shmem": 0, "Slab": 0, "SReclaimable": 0}
    (proc / "meminfo").write_text("".join(f"{name}: {size} kB\n" for name, size in memory.items()))
    (proc / "net/dev").write_text(
        "Inter-|   Receive\n face |bytes\n    lo: 7 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"
    )
    disk = "1 0 8 1 1 0 8 1 0 {busy_ms} 2 0 0 0 0 0 0"
    (proc / "diskstats").write_text(
        f"254 0 vda {disk.format(busy_ms=1500)}\n"
        f"254 1 vda1 {disk.format(busy_ms=1400)}\n"
        f"253 0 dm-0 {disk.format(busy_ms=1300)}\n"
    )
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))
    return tmp_path


def test_cpu_counts_neither_idle_nor_iowait_nor_guest_time(trees: Path) -> None:
    reading = HostReader(sys=trees / "sys")()
    assert reading.cpu_busy_s == pytest.approx((100 + 20 + 50 + 3 + 2 + 5) / TICKS_PER_S)


def test_only_the_disk_is_whole(trees: Path) -> None:
    disks = HostReader(sys=trees / "sys")().disks
    assert disks is not None
    assert {name: disk.whole for name, disk in disks.items()} == {"vda": True, "vda1": False, "dm-0": False}
    assert disks["vda"].busy_s == 1.5


def test_a_missing_file_costs_its_column_only(trees: Path) -> None:
    (trees / "proc/meminfo").unlink()
    reading = HostReader(sys=trees / "sys")()
    assert reading.memory is None
    assert None not in (reading.cpu_busy_s, reading.nics, reading.disks)


def test_memory_and_network_are_read(trees: Path) -> None:
    reading = HostReader(sys=trees / "sys")()
    assert reading.memory == MemoryGauge(total_bytes=8000 * 1024, available_bytes=6000 * 1024)
    assert reading.nics == {"lo": NicCounters(kind="loopback", rx_bytes=7, tx_bytes=9, bytes_per_s=None)}


def test_a_disk_that_is_plugged_in_counts_after_the_next_look(trees: Path) -> None:
    now_s = [0.0]
    reader = HostReader(sys=trees / "sys", clock=lambda: now_s[0])
    reader()
    (trees / "sys/block/vda1/device").mkdir(parents=True)
    found = []
    for now_s[0] in (1.0, HARDWARE_AGE_S):
        disks = reader().disks
        assert disks is not None
        found.append(disks["vda1"].whole)
    assert found == [False, True]


def test_this_machines_loopback_is_known_as_such() -> None:
    nics = HostReader()().nics
    assert nics is not None
    assert nics["lo"].kind == "loopback"
