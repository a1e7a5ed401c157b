"""The presentations of the laws have everything for the page, and name existing figures."""

import re
from pathlib import Path

import pytest
from steelyard_controller import laws
from steelyard_controller.laws.explanation import explain
from steelyard_controller.laws.presentation import FORMATS

from .snapshots import snapshot, steps

CHAIN = Path(__file__).parents[2] / "dashboard" / "src" / "chain.js"
PLACE = re.compile(r"\{(\w+):(\w+)\}")


@pytest.mark.parametrize("name", laws.NAMES)
def test_the_steps_of_a_law_name_figures_that_it_has(name: str) -> None:
    shown = laws.presentation_of(name)
    _, decision = steps(laws.create(name), [snapshot()])
    figures = {*explain(decision, 0).figures, "baseline", "score", "capacity_estimate"}
    assert shown.steps
    for step in shown.steps:
        texts = (step.value, step.note, *step.instead.values())
        named = [place for text in texts for place in PLACE.findall(text)]
        assert PLACE.search(step.value)
        assert {figure for figure, _ in named} | set(step.instead) <= figures
        assert {written for _, written in named} <= set(FORMATS)
        assert not any(re.search("[{}]", PLACE.sub("", text)) for text in texts)
    assert {f"clamp_{limit}" for limit in shown.limits} <= figures


def test_each_law_has_a_sentence_and_a_colour_of_its_own() -> None:
    shown = [laws.presentation_of(name) for name in laws.NAMES]
    assert len({each.sentence for each in shown}) == len({each.color for each in shown}) == len(shown)
    for each in shown:
        assert re.fullmatch(r"[a-z].*[^.]", each.sentence)
        assert re.fullmatch(r"#[0-9A-F]{6}", each.color)


def test_the_page_knows_every_format() -> None:
    known = re.search(r"const FORMATS = \{(.*)\};", CHAIN.read_text(encoding="utf-8"))
    assert known is not None
    assert set(FORMATS) <= set(re.findall(r"\w+", known[1]))
