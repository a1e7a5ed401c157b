"""The fuzzer's short form, on every reader: no input breaks anything."""

import subprocess
import sys
from pathlib import Path

import pytest

# It leaves CPU time to other programs, and gets its own share beside a load of eight.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]


def test_no_reader_breaks_on_malformed_input(tmp_path: Path) -> None:
    fuzz = [sys.executable, "-m", "steelyard_loadtest", "fuzz", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(["nice", "-n", "3", *fuzz], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
