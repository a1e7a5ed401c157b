"""The soak's short form: nothing may grow in a minute and a half of load and churn."""

import subprocess
import sys
from pathlib import Path

import pytest

# Mostly waiting.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(600)]


def test_90_seconds_of_load_and_churn_leave_nothing_behind(tmp_path: Path) -> None:
    # Half of the usual rate: the interpreter of nginx's Lua takes most of this test's CPU time.
    command = [sys.executable, "-m", "steelyard_loadtest", "soak", "--seconds", "90", "--rate", "100"]
    command += ["--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    assert "FAIL" not in (tmp_path / "soak.md").read_text()
    assert (tmp_path / "soak.png").stat().st_size > 10_000
