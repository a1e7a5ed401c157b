"""Fixture trees: /proc, /sys and cgroup files as a machine has them, one machine a text file.

=== path              a file, and the lines up to the next path are its text
=== path -> target    a symbolic link
=== path/             a folder
"""

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

Plant = Callable[..., Path]

# The boot time of the trees' machines (in proc/stat), in seconds since 1970.
BOOTED_AT_S = 1_700_000_000

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
def empty_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a tree without a file; psutil reads there too."""
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(root / "proc"))
    return root


@pytest.fixture
def plant(empty_tree: Path) -> Plant:
    """Grow one tree out of several files, the later ones over the earlier ones."""

    def grow(*names: str) -> Path:
        for name in names:
            _plant(name, empty_tree)
        return empty_tree

    return grow


@pytest.fixture
def plant_process(empty_tree: Path) -> Callable[..., Path]:
    """Add a process to the tree; `cpu` and `started` are in the kernel's ticks. Its folder is returned."""

    def grow(pid: int, parent: int = 1, *, cpu: int = 0, started: int = 500, threads: int = 1) -> Path:
        machine = empty_tree / "proc/stat"
        if not machine.exists():
            machine.write_text(f"cpu  1 2 3 4 5 6 7 8 9 10\nbtime {BOOTED_AT_S}\n")
        folder = empty_tree / "proc" / str(pid)
        for thread in range(pid, pid + threads):
            (folder / "task" / str(thread)).mkdir(parents=True)
        (folder / "stat").write_text(
            f"{pid} (app) S {parent} 1 1 0 -1 0 0 0 0 0 {cpu} 0 0 0 20 0 {threads} 0 {started} 9 3 1"
            f"{' 0' * 28}\n"
        )
        (folder / "statm").write_text("9 3 1 0 0 0 0\n")
        return folder

    return grow
