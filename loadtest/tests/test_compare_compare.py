"""The whole command on real daemons: a comparison, its files, and going on after an end."""

import csv
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from steelyard_loadtest.__main__ import main

pytestmark = pytest.mark.integration

SCENARIO = """
title = "Two servers"
what = "A strong and a weak one."
source = "a test"
algorithms = ["nginx-rr", "nginx-ip_hash", "steelyard", "steelyard-steelyard-swrr"]
[[servers]]
name = "strong"
cpu_cores = 0.3
weight = 3
[[servers]]
name = "weak"
cpu_cores = 0.1
[load]
generator = "open"
levels = [0.3]
of_capacity = true
seconds = 4
repeats = 1
warm_up_s = 1
cool_down_s = 0
[[events]]
at_s = 1
do = "leave"
server = "weak"
[[events]]
at_s = 3
do = "join"
server = "weak"
"""

PATIENCE_S = 110


def compare(folder: Path, *arguments: str, temporary: str | None = None) -> subprocess.Popen[str]:
    # Its many starts should not take the CPU of measurements beside it.
    command = ["nice", sys.executable, "-m", "steelyard_loadtest", "compare", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | ({"TMPDIR": temporary} if temporary else {}),
    )


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def temporary() -> Iterator[str]:
    """A folder for a run's files, with a path short enough for a Unix socket."""
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        yield folder


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c_leaves_figures_and_nothing_running_and_the_next_run_goes_on_there(
    tmp_path: Path, temporary: str
) -> None:
    (tmp_path / "two.toml").write_text(SCENARIO)
    arguments = ("two.toml", "--out", "results", "--only")
    first = compare(tmp_path, *arguments, "nginx-rr,steelyard", temporary=temporary)
    deadline = time.monotonic() + PATIENCE_S
    while not list(tmp_path.glob("results/trials/two/*/*-1.json")):
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # Every process that it starts has the run's folder in its command line.
    assert processes_of(temporary) != []
    first.send_signal(signal.SIGINT)
    said, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 130, said
    assert "interrupted" in said
    assert [row["algorithm"] for row in rows(tmp_path / "results")] == ["nginx-rr"]
    capacity = (tmp_path / "results/trials/two/capacity.json").read_text()
    assert "Machine" in (tmp_path / "results/conditions.json").read_text()
    # Processes that the kernel ends with their parent end a moment after it.
    deadline = time.monotonic() + PATIENCE_S
    while (left := processes_of(temporary)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []

    second = compare(tmp_path, *arguments, "nginx-ip_hash,steelyard,steelyard-steelyard-swrr")
    said, _ = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, said
    assert "lua-resty-balancer" in said  # that picker is missing, and is reported
    assert re.search(r"two: capacity \d+ requests/s, the median of 5 measurements \(.*\), as before", said)
    assert (tmp_path / "results/trials/two/capacity.json").read_text() == capacity
    by_name = {row["algorithm"]: row for row in rows(tmp_path / "results")}
    assert set(by_name) == {"nginx-rr", "nginx-ip_hash", "steelyard-steelyard-vnswrr2"}
    for row in by_name.values():
        assert int(row["requests"]) > 50
        assert abs(int(row["requests"]) - int(by_name["nginx-rr"]["requests"])) <= 1
        assert row["failures"] == "0"
        # p99 needs a hundred requests, and a busy machine has less capacity than that takes.
        assert float(row["p90_ms"]) >= float(row["p50_ms"]) > 0
        assert float(row["balancer_cpu_us_per_request"]) > 0
    shares = dict(part.split("=") for part in by_name["nginx-ip_hash"]["shares"].split())
    assert max(map(float, shares.values())) > 0.6  # one address: all to one server, but while it is away
    assert (tmp_path / "results" / "report.md").read_text().count("nginx round robin") > 1


def processes_of(folder: str) -> list[str]:
    done = subprocess.run(
        ["pgrep", "-f", f"{folder}/steelyard-lab-"], stdout=subprocess.PIPE, text=True, check=False
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere"], "there is no scenario 'nowhere'; there are report, paper"),
        ([], "no scenario: choose"),
        (["report", "--only", "nginx-best"], "there is no algorithm 'nginx-best'"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_ones(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *arguments]) == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
