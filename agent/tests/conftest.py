"""Fixture trees: /proc, /sys and cgroup files as a machine has them, one machine a text file.

=== path              a file, and the lines up to the next path are its text
=== path -> target    a symbolic link
=== path/             a folder
"""

from collections.abc import Callable
from pathlib import Path

import pytest

Plant = Callable[..., Path]

TREES = Path(__file__).parent / "fixtures"


def _plant(name: str, root: Path) -> None:
    for part in (TREES / f"{name}.tree").read_text().split("=== ")[1:]:
        head, _, text = part.partition("\n")
        path, arrow, target = head.partition(" -> ")
        place = root / path.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            place.symlink_to(target)
        elif path.endswith("/"):
            place.mkdir(exist_ok=True)
        else:
            place.write_text(text)


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Grow one tree out of several files, the later ones over the earlier ones."""

    def grow(*names: str) -> Path:
        root = tmp_path / "root"
        for name in names:
            _plant(name, root)
        return root

    return grow
