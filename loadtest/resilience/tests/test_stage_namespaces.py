"""Cuts between hosts, and the clock's file."""

from pathlib import Path

import pytest
from steelyard_loadtest.machine.find_programs import find
from steelyard_resilience.stage import install
from steelyard_resilience.stage.layout import Place
from steelyard_resilience.stage.namespaces import Network


def test_mending_without_a_cut_is_harmless() -> None:
    Network({"edge": "10.213.0.10", "redis": "10.213.0.32"}).mend("edge", "redis")


@pytest.mark.parametrize(("seconds", "text"), [(3600, "+3600"), (-3600, "-3600"), (0, "+0")])
def test_a_clock_is_a_file_that_libfaketime_reads(tmp_path: Path, seconds: float, text: str) -> None:
    place = Place(
        folder=tmp_path,
        programs=find(None),
        clocks=tmp_path,
    )
    install.step_clock(place, "edge", seconds)
    assert (tmp_path / "clocks" / "edge").read_text() == f"{text}.000000s\n"
    assert [path.name for path in (tmp_path / "clocks").iterdir()] == ["edge"]
