"""The fuzzer's short form, on everything that reads: no input breaks anything."""

import subprocess
import sys
from pathlib import Path

import pytest

# It leaves CPU time to the others, and takes its part of it beside a load of eight as well.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]


def test_nothing_that_reads_is_broken_by_what_it_reads(tmp_path: Path) -> None:
    fuzz = [sys.executable, "-m", "steelyard_loadtest", "fuzz", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(["nice", "-n", "3", *fuzz], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
