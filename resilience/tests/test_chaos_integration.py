"""The chaos's short form: faults of nearly every kind, each within its bound."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Bounds are times, so only what mostly waits, as this does, may run beside it.
pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]


def test_faults_are_survived_within_their_bounds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steelyard_loadtest", "chaos", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert json.loads((tmp_path / "outcomes.json").read_text())
