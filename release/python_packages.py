"""Wheels and source distributions by hatchling; the controller's contain the page."""

import os
import subprocess
import sys
from pathlib import Path

from release.source_tree import DISTRIBUTIONS


def build(checkout: Path, tree: Path, out: Path, made_at_s: int) -> None:
    """Build each distribution of the tree with the tools of the checkout's .venv."""
    # npm may be a wheel in .venv, and scripts/page looks for it in the tree.
    (tree / ".venv").symlink_to(checkout / ".venv")
    subprocess.run([tree / "scripts/page"], check=True)
    python = Path(sys.executable)
    command = [
        str(python.with_name("uv")),
        "build",
        "--quiet",
        "--no-build-isolation",
        "--python",
        str(python),
    ]
    for name in DISTRIBUTIONS:
        subprocess.run(
            [*command, "--sdist", "--wheel", "--out-dir", str(out), str(tree / name)],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(made_at_s)},
        )
    (out / ".gitignore").unlink(missing_ok=True)  # uv's
