"""CONTRIBUTING.md is true: its paths exist, and the lists that its recipes name hold every law and picker."""

import re
from pathlib import Path

from steelyard_controller import laws
from steelyard_loadtest.compare.report import palette
from steelyard_loadtest.scenario import algorithms

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DASHBOARD = ROOT / "controller" / "dashboard" / "src"

NOT_YET = re.compile(r"/(test_law_)?mine(_spec)?\.")
"""What a recipe has its reader write."""


def paths() -> list[str]:
    """Return what the page names as a path of this tree: in backquotes, in a command, behind a link."""
    ours = [each.name for each in ROOT.iterdir() if each.is_dir() and not each.name.endswith("-results")]
    folders = [re.escape(name) for name in ours if not name.startswith(".")]
    found = re.findall(rf"(?<![\w/.-])(?:{'|'.join(folders)})/[\w./-]+", PAGE)
    return sorted({path.rstrip(".") for path in found if not NOT_YET.search(path)})


def test_every_path_on_the_page_exists() -> None:
    assert len(paths()) > 60
    assert [path for path in paths() if not (ROOT / path).exists()] == []


def test_the_lab_knows_every_law_and_has_a_colour_for_it() -> None:
    assert set(algorithms.LAWS) == set(palette.LAW_COLORS) == set(laws.NAMES)


def test_the_page_of_the_controller_has_words_and_steps_for_every_law() -> None:
    words = (DASHBOARD / "words.js").read_text(encoding="utf-8").split("export const LAWS = {")[1]
    steps = (DASHBOARD / "chain.js").read_text(encoding="utf-8").split("const LAWS = {")[1]
    for text in (words, steps):
        members = re.findall(r"\b(\w+)\b(?=[:,]| \})", text.split("};")[0])
        assert set(laws.NAMES) <= set(members)
