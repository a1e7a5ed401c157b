"""`steelyard-loadtest` with only the packages of `make up`: other commands are refused at once."""

import subprocess
import sys

import pytest

# None in sys.modules makes a module look as if it were not installed.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(["matplotlib", "locust", "PIL", "rich", "steelyard_simulator"]))
from steelyard_loadtest.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("command", "missing", "level"),
    [
        ("demo", "matplotlib", "--with-load"),
        ("compare", "matplotlib", "--with-load"),
        ("dataplane", "matplotlib", "--with-load"),
        ("simulate", "steelyard_simulator", "--with-simulator"),
    ],
)
def test_commands_for_load_and_plots_name_missing_modules_and_their_option(
    command: str, missing: str, level: str
) -> None:
    done = run(command)
    assert done.returncode == 2
    message = f"{command} needs {missing}, which is not installed: run `scripts/setup {level}`"
    assert done.stderr.splitlines()[-1] == f"steelyard-loadtest: error: {message}"


def test_the_cluster_needs_none_of_it_and_the_help_names_what_is_there() -> None:
    assert run("cluster", "--help").returncode == 0
    done = run("--help")
    assert done.returncode == 0
    assert "    cluster " in done.stdout
    assert "demo" not in done.stdout
