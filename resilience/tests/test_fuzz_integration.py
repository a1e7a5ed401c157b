"""The fuzzer's short form, on everything that reads: no input breaks anything."""

import subprocess
import sys
from pathlib import Path

import pytest

# It takes what CPU time the others leave.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]


def test_nothing_that_reads_is_broken_by_what_it_reads(tmp_path: Path) -> None:
    command = ["nice", sys.executable, "-m", "steelyard_loadtest", "fuzz", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
