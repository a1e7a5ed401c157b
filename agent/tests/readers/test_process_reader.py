"""The process scope's reader, on a small /proc tree and on real processes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from steelyard_agent.readers.process import STALE_S, ProcessReader
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.sample import Indicators
from steelyard_agent.scopes.process import ProcessReading, cpu_spent_s, io_calls
from steelyard_agent.scopes.reading import Absent, sample_between

Plant = Callable[..., Path]

# When the tree's machine was booted: conftest.py writes it into proc/stat.
BOOTED_AT_S = 1_700_000_000

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Burns an amount of CPU in a child or itself, at a command of one line.
BURNER = """
import os, sys, time

def burn(seconds):
    while time.process_time() < seconds:
        pass

for line in sys.stdin:
    what, seconds = line.split()
    child = os.fork()
    if child == 0:
        burn(float(seconds))
        if what == "stay":
            print("burnt", time.process_time(), flush=True)
            time.sleep(600)
        os._exit(0)
    if what == "end":
        usage = os.wait4(child, 0)[2]
        print("burnt", usage.ru_utime + usage.ru_stime, flush=True)
"""


def no_clock(pid: int) -> float:
    raise OSError(f"the clock of the real process {pid} is none of a fixture's business")


@pytest.fixture
def fake_process(plant_process: Plant) -> Plant:
    """Add a process to the tree, with the list of its children if there is one."""

    def grow(
        pid: int, parent: int = 1, *, cpu: int = 0, threads: int = 1, children: list[int] | None = None
    ) -> Path:
        folder = plant_process(pid, parent, cpu=cpu, threads=threads)
        if children is not None:
            (folder / f"task/{pid}/children").write_text("".join(f"{child} " for child in children))
        return folder

    return grow


@pytest.mark.parametrize("listed", [True, False], ids=["with lists of children", "without"])
def test_the_tree_is_the_process_and_its_descendants(
    empty_tree: Path, fake_process: Plant, listed: bool
) -> None:
    family = {10: (1, [11, 12]), 11: (10, [13]), 12: (10, []), 13: (11, []), 20: (1, [])}
    for pid, (parent, children) in family.items():
        fake_process(pid, parent, cpu=pid * TICKS_PER_S, children=children if listed else None)
    reading = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=no_clock)()
    assert isinstance(reading, ProcessReading)
    assert {pid: process.cpu_s for pid, process in reading.processes.items()} == {
        10: 10,
        11: 11,
        12: 12,
        13: 13,
    }


def test_the_tightest_quota_on_its_groups_is_read_each_time(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[])
    reader = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=no_clock)

    def quota() -> float | None:
        reading = reader()
        assert isinstance(reading, ProcessReading)
        return reading.quota_cores

    assert quota() is None  # a kernel without control groups
    group = empty_tree / "sys/fs/cgroup/web"
    (group / "app").mkdir(parents=True)
    (empty_tree / "proc" / "self").mkdir()
    (empty_tree / "proc" / "self" / "mountinfo").write_text(
        "30 1 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
    )
    (empty_tree / "proc" / "10" / "cgroup").write_text("0::/web/app\n")
    (group / "cpu.max").write_text("20000 100000\n")
    (group / "app" / "cpu.max").write_text("max 100000\n")
    assert quota() == 0.2
    (group / "app" / "cpu.max").write_text("3000 20000\n")
    assert quota() == 0.15
    (empty_tree / "proc" / "10" / "cgroup").write_text("0::/../elsewhere\n")  # another container's
    assert quota() is None


def test_a_child_that_ends_while_the_tree_is_read_is_left_out(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[11, 12])
    fake_process(12, 10, children=[])
    reading = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=no_clock)()
    assert isinstance(reading, ProcessReading)
    assert reading.processes.keys() == {10, 12}


def why(target: Target, root: Path) -> str:
    reading = ProcessReader(target, root=root, cpu_clock=no_clock)()
    assert isinstance(reading, Absent)
    return reading.why


def test_a_pid_file_that_is_missing_garbled_or_stale_is_absence(empty_tree: Path) -> None:
    file = empty_tree / "app.pid"
    target = Target(pid_file=file)
    assert why(target, empty_tree) == f"PID file {file} is not there"
    file.write_text("soon")
    assert why(target, empty_tree) == f"PID file {file} holds no process number"
    file.write_text("77")
    assert why(target, empty_tree) == f"process 77, which PID file {file} names, is not running"


def test_a_zombie_is_absence(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[])
    stat = empty_tree / "proc/10/stat"
    stat.write_text(stat.read_text().replace(") S", ") Z"))
    assert why(Target(pid=10), empty_tree) == "process 10 is not running"


def test_a_pid_that_another_process_got_is_absence(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[])
    reader = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=no_clock)
    assert isinstance(reader(), ProcessReading)
    stat = empty_tree / "proc/10/stat"
    stat.write_text(stat.read_text().replace(" 500 ", " 900 "))
    assert reader() == Absent("process 10 has ended, and another one has its number now")


def test_a_pid_file_with_a_new_pid_is_followed(empty_tree: Path, fake_process: Plant) -> None:
    for pid in (10, 20):
        fake_process(pid, 1, children=[])
    file = empty_tree / "app.pid"
    reader = ProcessReader(Target(pid_file=file), root=empty_tree, cpu_clock=no_clock)
    roots = []
    for pid in (10, 20):
        file.write_text(f"{pid}\n")
        reading = reader()
        assert isinstance(reading, ProcessReading)
        roots.append(reading.root_pid)
        shutil.rmtree(empty_tree / "proc" / str(pid))
    assert roots == [10, 20]


def file_of(root: Path, written_s: float) -> Path:
    """Write the PID file of process 10, `written_s` seconds after the boot."""
    file = root / "app.pid"
    file.write_text("10")
    os.utime(file, (BOOTED_AT_S + written_s, BOOTED_AT_S + written_s))
    return file


# Process 10 started then, in seconds since the boot.
STARTED_S = 500 / TICKS_PER_S


def test_a_pid_file_older_than_its_process_is_stale(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[])
    file = file_of(empty_tree, STARTED_S - STALE_S - 5)
    assert "started after that file was written: another process has that number now" in why(
        Target(pid_file=file), empty_tree
    )


@pytest.mark.parametrize("later_s", [5 - STALE_S, 1e6], ids=["within the bound", "much younger than it"])
def test_a_pid_file_is_believed(empty_tree: Path, fake_process: Plant, later_s: float) -> None:
    fake_process(10, children=[])
    file = file_of(empty_tree, STARTED_S + later_s)
    assert isinstance(ProcessReader(Target(pid_file=file), root=empty_tree)(), ProcessReading)


def test_a_number_that_is_given_out_again_is_noticed_while_the_pid_file_is_the_same(
    empty_tree: Path, fake_process: Plant
) -> None:
    stat = fake_process(10, children=[]) / "stat"
    file = file_of(empty_tree, STARTED_S)
    read = ProcessReader(Target(pid_file=file), root=empty_tree, cpu_clock=no_clock)
    assert isinstance(read(), ProcessReading)
    stat.write_text(stat.read_text().replace(" 500 ", " 900 "))
    assert read() == Absent("process 10 has ended, and another one has its number now")
    os.utime(file)
    assert isinstance(read(), ProcessReading)


def test_a_clock_that_is_set_while_a_process_is_watched_changes_nothing(
    empty_tree: Path, fake_process: Plant
) -> None:
    fake_process(10, children=[11])
    fake_process(11, 10, children=[])
    file = file_of(empty_tree, STARTED_S)
    machine = empty_tree / "proc/stat"
    read = ProcessReader(Target(pid_file=file), root=empty_tree, cpu_clock=no_clock)
    started = []
    for booted_at_s in (BOOTED_AT_S, BOOTED_AT_S + 1_000_000, 0):
        machine.write_text(f"cpu  1 2 3 4 5 6 7 8 9 10\nbtime {booted_at_s}\n")
        reading = read()
        assert isinstance(reading, ProcessReading)
        started.append([process.started_s for process in reading.processes.values()])
    assert started == [[pytest.approx(STARTED_S)] * 2] * 3
    assert started[0] == started[1] == started[2]


@pytest.fixture
def burner() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.kill()


def burnt_s(burner: "subprocess.Popen[str]", what: str, seconds: float) -> float:
    """Have a child burn CPU, and return the amount in its report."""
    assert burner.stdin is not None
    assert burner.stdout is not None
    print(what, seconds, file=burner.stdin, flush=True)
    return float(burner.stdout.readline().split()[1])


# The kernel counts in ticks of 10 ms, for user and system time of a child and of its parent.
ROUNDING_S = 0.05


@pytest.mark.integration
def test_a_real_childs_time_is_counted_once_whether_it_stays_or_ends(burner: "subprocess.Popen[str]") -> None:
    read = ProcessReader(Target(pid=burner.pid), count_io=True)
    burnt_s(burner, "end", 0.0)  # the interpreter is up
    before = read()
    for what, seconds in (("end", 0.5), ("stay", 0.4)):
        burnt = burnt_s(burner, what, seconds)
        after = read()
        assert isinstance(before, ProcessReading)
        assert isinstance(after, ProcessReading)
        taken = sample_between(before, after, Indicators(cpu=0.5))
        assert taken is not None
        assert taken.utilization.cpu is not None
        assert taken.utilization.cpu * 0.5 * taken.interval_s == pytest.approx(burnt, abs=ROUNDING_S)
        assert (io_calls(before, after) or 0) > 0
        before = after
    child = psutil.Process(burner.pid).children()[0]
    child.kill()
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    after = read()
    assert isinstance(before, ProcessReading)
    assert isinstance(after, ProcessReading)
    assert cpu_spent_s(before, after) == pytest.approx(0.0, abs=ROUNDING_S)


def test_a_process_of_many_threads_has_the_same_tree(empty_tree: Path, fake_process: Plant) -> None:
    fake_process(10, children=[11], threads=100)
    fake_process(11, 10, children=[])
    reader = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=no_clock)
    for reading in (reader(), reader()):  # the second one scans, because that is cheaper than 100 lists
        assert isinstance(reading, ProcessReading)
        assert reading.processes.keys() == {10, 11}


def test_the_time_of_a_process_is_finer_than_the_ticks_of_procfs(
    empty_tree: Path, fake_process: Plant
) -> None:
    fake_process(10, cpu=3, children=[])
    reading = ProcessReader(Target(pid=10), root=empty_tree, cpu_clock=lambda _pid: 0.0345678)()
    assert isinstance(reading, ProcessReading)
    assert reading.processes[10].cpu_s == 0.0345678
