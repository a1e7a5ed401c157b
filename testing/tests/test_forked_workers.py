"""Forked workers run every test once, report as pytest does, and lose no failure."""

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from testing.forked_workers import NONE, Ranges

ROOT = Path(__file__).parents[2]

PASSES = """
import os
from pathlib import Path
import pytest

@pytest.fixture(scope="session", autouse=True)
def noted():
    yield
    Path(NOTES, "torn-down-" + os.environ["PYTEST_XDIST_WORKER"]).touch()

@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")

@pytest.mark.parametrize("number", range(8))
def test_it(number, kept, tmp_path):
    print("said by", number)
    assert kept.parent == tmp_path.parent
    assert kept.parent.name == os.environ["PYTEST_XDIST_WORKER"]
    with Path(NOTES, "ran").open("a") as notes:
        notes.write(f"{number}\\n")
"""

FAILS = """
import os
from pathlib import Path

def test_fails():
    print("what it said")
    assert 1 == 2

def test_passes_the_second_time():
    Path(NOTES, "tries").open("a").write("x")
    assert len(Path(NOTES, "tries").read_text()) == 2

def test_ends_the_worker():
    os._exit(3)
"""


def pytest_run(folder: Path, *flags: str) -> "subprocess.CompletedProcess[str]":
    """Run tests of a folder in two forks."""
    (folder / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "testing.forked_workers", "--forks", "2"]
    for plugin in ("hypothesispytest", "schemathesis", "anyio", "locust", "platformdirs", "xdist"):
        command += ["-p", f"no:{plugin}"]
    command += flags
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_every_test_runs_once_and_no_failure_is_lost(tmp_path: Path) -> None:
    for name, tests in (("passes", PASSES), ("fails", FAILS)):
        (tmp_path / f"test_{name}.py").write_text(f"NOTES = {str(tmp_path)!r}\n{tests}")
    ran = pytest_run(tmp_path, "--reruns", "1")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "2 failed, 9 passed, 2 rerun" in ran.stdout
    assert "what it said" in ran.stdout
    assert "assert 1 == 2" in ran.stdout
    assert "its worker ended with status 3" in ran.stdout
    assert sorted((tmp_path / "ran").read_text().split()) == [str(number) for number in range(8)]
    # The other worker has ended in order.
    assert len([*tmp_path.glob("torn-down-*")]) == 1


@pytest.mark.parametrize(("tests", "workers"), [(1, 1), (7, 3), (4, 4), (20, 3)])
def test_ranges_give_each_test_once_in_whatever_order_workers_take_them(tests: int, workers: int) -> None:
    for seed in range(20):
        order, ranges = random.Random(seed), Ranges(tests, workers)
        taken: list[list[tuple[int, int]]] = [[] for _ in range(workers)]
        busy = [*range(workers)]
        while busy:
            worker = order.choice(busy)
            now = ranges.take(worker)
            if now is None:
                busy.remove(worker)
            else:
                taken[worker].append(now)
                assert ranges.taken(worker) == [test for test in now if test != NONE]
        assert sorted(test for each in taken for test, _ in each) == [*range(tests)]
        for each in taken:
            assert all(following in (NONE, test) for (_, following), (test, _) in pairwise(each))
