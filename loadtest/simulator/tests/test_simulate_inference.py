"""Engines behind several load balancers, by nginx's own pickers."""

from functools import cache
from pathlib import Path
from random import Random

import pytest
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.inference.arrivals import generated, loaded
from steelyard_simulator.studies.inference_study import CONTENDERS, SIZES, figures

ASKED = loaded(generated(Random(1), 1500), load=0.9, size=sum(SIZES), seconds=20)


@cache
def first_run(name: str) -> list[str]:
    """Return a contender's figures."""
    return figures(name, ASKED)


def test_keys_bring_hits_and_costs_shorten_the_queues() -> None:
    rows = {name: list(map(float, first_run(name)[1:])) for name in CONTENDERS}
    ttft, hits = ({name: row[column] for name, row in rows.items()} for column in (0, 3))
    assert min(hits["bounded hash"], hits["**Steelyard, prefix keys**"]) > 1.5 * hits["round robin"]
    assert ttft["**Steelyard, no keys**"] < ttft["round robin"]
    assert ttft["**Steelyard, prefix keys**"] < ttft["bounded hash"]


def test_a_run_is_the_same_each_time() -> None:
    assert figures("**Steelyard, prefix keys**", ASKED) == first_run("**Steelyard, prefix keys**")


def test_a_page_without_its_marks_is_refused_before_anything_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marks")
    assert main(["simulate", "inference", "--page", str(page), "--out", str(tmp_path)]) != 0
    assert "simulate inference" in capsys.readouterr().err
    assert not (tmp_path / "report.md").exists()
