"""The process scope's reader, on a small /proc tree and on real processes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from steelyard_agent.readers.process import STALE_S, ProcessReader
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.sample import Indicators
from steelyard_agent.scopes.process import ProcessReading, cpu_spent_s, io_calls
from steelyard_agent.scopes.reading import Absent, sample_between

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Burns CPU until it has spent so much, in a child or itself, at a command of one line.
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


def fake_process(root: Path, pid: int, parent: int, cpu_ticks: int, children: list[int] | None) -> None:
    task = root / "proc" / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    (root / "proc" / str(pid) / "stat").write_text(
        f"{pid} (app) S {parent} 1 1 0 -1 0 0 0 0 0 {cpu_ticks} 0 0 0 20 0 1 0 500 9 3 1\n"
    )
    if children is not None:
        (task / "children").write_text("".join(f"{child} " for child in children))


@pytest.mark.parametrize("listed", [True, False], ids=["with lists of children", "without"])
def test_the_tree_is_the_process_and_its_descendants(tmp_path: Path, listed: bool) -> None:
    family = {10: (1, [11, 12]), 11: (10, [13]), 12: (10, []), 13: (11, []), 20: (1, [])}
    for pid, (parent, children) in family.items():
        fake_process(
            tmp_path, pid, parent, cpu_ticks=pid * TICKS_PER_S, children=children if listed else None
        )
    reading = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=no_clock)()
    assert isinstance(reading, ProcessReading)
    assert {pid: process.cpu_s for pid, process in reading.processes.items()} == {
        10: 10,
        11: 11,
        12: 12,
        13: 13,
    }


def test_the_tightest_quota_on_its_groups_is_read_each_time(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[])
    reader = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=no_clock)

    def quota() -> float | None:
        reading = reader()
        assert isinstance(reading, ProcessReading)
        return reading.quota_cores

    assert quota() is None  # a kernel without control groups
    group = tmp_path / "sys/fs/cgroup/web"
    (group / "app").mkdir(parents=True)
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "self" / "mountinfo").write_text(
        "30 1 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n"
    )
    (tmp_path / "proc" / "10" / "cgroup").write_text("0::/web/app\n")
    (group / "cpu.max").write_text("20000 100000\n")
    (group / "app" / "cpu.max").write_text("max 100000\n")
    assert quota() == 0.2
    (group / "app" / "cpu.max").write_text("3000 20000\n")
    assert quota() == 0.15
    (tmp_path / "proc" / "10" / "cgroup").write_text("0::/../elsewhere\n")  # another container's
    assert quota() is None


def test_a_child_that_ends_while_the_tree_is_read_is_left_out(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[11, 12])
    fake_process(tmp_path, 12, 10, cpu_ticks=0, children=[])
    reading = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=no_clock)()
    assert isinstance(reading, ProcessReading)
    assert reading.processes.keys() == {10, 12}


def why(target: Target, root: Path) -> str:
    reading = ProcessReader(target, root=root, cpu_clock=no_clock)()
    assert isinstance(reading, Absent)
    return reading.why


def test_a_pid_file_that_is_missing_garbled_or_stale_is_absence(tmp_path: Path) -> None:
    file = tmp_path / "app.pid"
    target = Target(pid_file=file)
    assert why(target, tmp_path) == f"PID file {file} is not there"
    file.write_text("soon")
    assert why(target, tmp_path) == f"PID file {file} holds no process number"
    file.write_text("77")
    assert why(target, tmp_path) == f"process 77, which PID file {file} names, is not running"


def test_a_zombie_is_absence(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[])
    stat = tmp_path / "proc/10/stat"
    stat.write_text(stat.read_text().replace(") S", ") Z"))
    assert why(Target(pid=10), tmp_path) == "process 10 is not running"


def test_a_pid_that_another_process_got_is_absence(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[])
    reader = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=no_clock)
    assert isinstance(reader(), ProcessReading)
    stat = tmp_path / "proc/10/stat"
    stat.write_text(stat.read_text().replace(" 500 ", " 900 "))
    assert reader() == Absent("process 10 has ended, and another one has its number now")


def test_a_pid_file_with_a_new_pid_is_followed(tmp_path: Path) -> None:
    for pid in (10, 20):
        fake_process(tmp_path, pid, 1, cpu_ticks=0, children=[])
    file = tmp_path / "app.pid"
    reader = ProcessReader(Target(pid_file=file), root=tmp_path, cpu_clock=no_clock)
    roots = []
    for pid in (10, 20):
        file.write_text(f"{pid}\n")
        reading = reader()
        assert isinstance(reading, ProcessReading)
        roots.append(reading.root_pid)
        shutil.rmtree(tmp_path / "proc" / str(pid))
    assert roots == [10, 20]


BOOTED_AT_S = 1_700_000_000.0


def started_after_its_file(root: Path, seconds: float) -> ProcessReader:
    """Return a reader of a PID file that was written so long before the process started (5 s after boot)."""
    fake_process(root, 10, 1, cpu_ticks=0, children=[])
    file = root / "app.pid"
    file.write_text("10")
    written_at_s = BOOTED_AT_S + 500 / TICKS_PER_S - seconds
    os.utime(file, (written_at_s, written_at_s))
    return ProcessReader(
        Target(pid_file=file),
        root=root,
        cpu_clock=no_clock,
        wall_clock=lambda: BOOTED_AT_S + time.clock_gettime(time.CLOCK_BOOTTIME),
    )


def test_a_pid_file_older_than_its_process_is_stale(tmp_path: Path) -> None:
    reading = started_after_its_file(tmp_path, STALE_S + 5)()
    assert isinstance(reading, Absent)
    assert "started after that file was written: another process has that number now" in reading.why


def test_a_pid_file_is_believed_within_the_bound(tmp_path: Path) -> None:
    assert isinstance(started_after_its_file(tmp_path, STALE_S - 5)(), ProcessReading)


def test_a_pid_file_may_be_much_younger_than_its_process(tmp_path: Path) -> None:
    assert isinstance(started_after_its_file(tmp_path, -1e6)(), ProcessReading)


def test_a_number_that_is_given_out_again_is_noticed_while_the_pid_file_is_the_same(tmp_path: Path) -> None:
    read = started_after_its_file(tmp_path, 0.0)
    assert isinstance(read(), ProcessReading)
    stat = tmp_path / "proc/10/stat"
    stat.write_text(stat.read_text().replace(" 500 ", " 900 "))
    assert read() == Absent("process 10 has ended, and another one has its number now")
    os.utime(tmp_path / "app.pid")
    assert isinstance(read(), ProcessReading)


def test_a_clock_that_is_set_while_a_process_is_watched_changes_nothing(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[])
    file = tmp_path / "app.pid"
    file.write_text("10")
    start_s = time.time()
    now_s = [start_s]
    read = ProcessReader(
        Target(pid_file=file), root=tmp_path, cpu_clock=no_clock, wall_clock=lambda: now_s[0]
    )
    for now_s[0] in (start_s, start_s + 1e6, 0.0):
        assert isinstance(read(), ProcessReading)


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
    """Have a child burn CPU, and return how much it says it burnt once it has."""
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


def test_a_process_of_many_threads_has_the_same_tree(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=0, children=[11])
    fake_process(tmp_path, 11, 10, cpu_ticks=0, children=[])
    stat = tmp_path / "proc/10/stat"
    stat.write_text(stat.read_text().replace(" 20 0 1 0 ", " 20 0 900 0 "))
    reader = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=no_clock)
    for reading in (reader(), reader()):  # the second one scans, because that is cheaper than 900 lists
        assert isinstance(reading, ProcessReading)
        assert reading.processes.keys() == {10, 11}


def test_the_time_of_a_process_is_finer_than_the_ticks_of_procfs(tmp_path: Path) -> None:
    fake_process(tmp_path, 10, 1, cpu_ticks=3, children=[])
    reading = ProcessReader(Target(pid=10), root=tmp_path, cpu_clock=lambda _pid: 0.0345678)()
    assert isinstance(reading, ProcessReading)
    assert reading.processes[10].cpu_s == 0.0345678
