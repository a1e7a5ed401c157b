"""A real measurement of a few seconds: figures exist, but are not judged."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from steelyard_loadtest.__main__ import main

pytestmark = pytest.mark.integration

COMMAND = [sys.executable, "-m", "steelyard_loadtest", "dataplane"]

# wrk knows no rate, and at full speed it takes both CPUs from other tests. So each connection pauses first.
SLOWER_WRK = """#!/bin/sh
for each; do
  case $each in --script=*) echo "function delay() return 20 end" >> "${{each#--script=}}" ;; esac
done
exec {wrk} "$@"
"""


@pytest.fixture
def slower_wrk(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose wrk sends 50 requests a second on each connection."""
    program = tmp_path / "bin" / "wrk"
    program.parent.mkdir()
    program.write_text(SLOWER_WRK.format(wrk=shutil.which("wrk")))
    program.chmod(0o700)
    return os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}


def test_a_small_run_measures_ours_beside_nginx_s_and_writes_its_files(
    tmp_path: Path, slower_wrk: dict[str, str]
) -> None:
    out = tmp_path / "out"
    # Within one second a busy machine may not answer once.
    flags = ["--peers", "3", "--rounds", "1", "--seconds", "2", "--only", "direct,nginx-swrr,vnswrr"]
    command = [*COMMAND, *flags, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env=slower_wrk)
    assert done.returncode == 0, done.stderr
    assert "| Steelyard vnswrr | " in done.stdout
    with (out / "dataplane.csv").open(newline="") as lines:
        rows = {row["algorithm"]: row for row in csv.DictReader(lines)}
    assert list(rows) == ["direct", "nginx-swrr", "vnswrr"]
    for row in rows.values():
        assert int(row["requests"]) > 0
        assert (row["failures"], row["failure_kinds"]) == ("0", "")
    assert rows["direct"]["balancer_cpu_us_per_request"] == ""
    assert float(rows["vnswrr"]["balancer_cpu_us_per_request"]) > 0
    assert int(rows["vnswrr"]["balancer_resident_bytes"]) > 1_000_000
    assert (out / "dataplane.png").exists()
    assert "(1.00)" in (out / "dataplane.md").read_text(encoding="utf-8")


def test_an_nginx_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataplane", "--nginx", str(tmp_path / "nginx"), "--out", str(tmp_path / "out")]) == 1
    line = capsys.readouterr().err
    assert line.startswith("steelyard-loadtest dataplane: there is no nginx at ")
    assert line.count("\n") == 1


def test_without_wrk_the_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["dataplane"]) == 1
    assert capsys.readouterr().err == (
        "steelyard-loadtest dataplane: wrk is not installed and makes the load: apt-get install wrk\n"
    )
