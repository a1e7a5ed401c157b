"""The processes of a cluster: those recorded in its folder, while they run."""

import os
from pathlib import Path

import pytest
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.cluster.processes import running

PART = Part(name="redis", command=("redis-server",))


def test_a_process_that_stands_in_the_folder_is_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "redis.process").write_text(str(os.getpid()))
    found = running(PART, tmp_path)
    assert found is not None
    assert found.pid == os.getpid()


@pytest.mark.parametrize("noted", ["", "x", "0", str(2**31 - 1), "OURS"])
def test_a_number_that_is_nobody_s_or_somebody_else_s_is_no_part(tmp_path: Path, noted: str) -> None:
    (tmp_path / "redis.process").write_text(str(os.getpid()) if noted == "OURS" else noted)
    assert running(PART, tmp_path) is None


def test_what_was_never_started_does_not_run(tmp_path: Path) -> None:
    assert running(PART, tmp_path) is None
