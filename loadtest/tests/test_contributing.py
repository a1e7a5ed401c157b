"""CONTRIBUTING.md is true: its paths exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

NOT_YET = re.compile(r"/(test_law_)?mine(_spec)?\.")
"""The file that a recipe's reader writes."""


def paths() -> list[str]:
    """Return the page's paths of this tree: in backquotes, in a command, behind a link."""
    ours = [each.name for each in ROOT.iterdir() if each.is_dir() and not each.name.endswith("-results")]
    folders = [re.escape(name) for name in ours if not name.startswith(".")]
    paths = re.findall(rf"(?<![\w/.-])(?:{'|'.join(folders)})/[\w./-]+", PAGE)
    return sorted({path.rstrip(".") for path in paths if not NOT_YET.search(path)})


def test_every_path_on_the_page_exists() -> None:
    assert len(paths()) > 60
    assert [path for path in paths() if not (ROOT / path).exists()] == []
