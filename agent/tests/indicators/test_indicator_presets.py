"""The presets, tested on files written by the programs, and on names from their documentation."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from steelyard_agent.evidence import Quantity
from steelyard_agent.indicators import declared, measure
from steelyard_agent.indicators.presets import PRESETS

FOLDER = Path(__file__).parents[1] / "fixtures" / "indicators"
WRITTEN = tomllib.loads((FOLDER / "written.toml").read_text())["written"]


@pytest.mark.parametrize(
    ("written", "reads"), [(written, reads) for written in WRITTEN for reads in written["reads"]]
)
def test_a_preset_reads_what_its_program_wrote(written: dict[str, Any], reads: dict[str, Any]) -> None:
    text = (FOLDER / written["file"]).read_text() if "file" in written else written["text"]
    entry = {"name": "a", "preset": written["preset"], **reads["keys"]}
    (indicator,) = declared.parse([entry], interval_s=1.0)
    evidence = measure.measured(indicator, None, measure.reading(indicator, text, 0.0))
    assert (evidence.numerator, evidence.denominator) == (
        Quantity(reads["used"], ""),
        Quantity(reads["limit"], ""),
    )
    assert evidence.value == reads["used"] / reads["limit"]


def test_every_preset_is_tried_here() -> None:
    assert {written["preset"] for written in WRITTEN} == set(PRESETS)
