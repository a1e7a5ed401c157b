"""The fuzzer's short form, on everything that reads: no input breaks anything."""

import subprocess
import sys
from pathlib import Path

import pytest

# With the machine to itself: beside others it would be what makes them late.
pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(600)]


def test_nothing_that_reads_is_broken_by_what_it_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steelyard_loadtest", "fuzz", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
