"""Every shell script is accepted by its shell; otherwise a container notices it only when it starts."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def shell_scripts() -> list[Path]:
    listed = subprocess.run(
        ["git", "grep", "-l", "--cached", "-E", "^#!.*(/bash|/sh|env bash)$"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.splitlines()]
    return [file for file in files if file.read_text(encoding="utf-8").startswith("#!")]


def test_the_search_finds_scripts_of_containers_and_of_the_checkout() -> None:
    assert {ROOT / "loadtest/docker/server", ROOT / "scripts/setup"} <= set(shell_scripts())


@pytest.mark.parametrize("script", shell_scripts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_script_is_accepted_by_its_shell(script: Path) -> None:
    shell = "bash" if "bash" in script.read_text(encoding="utf-8").splitlines()[0] else "sh"
    checked = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
