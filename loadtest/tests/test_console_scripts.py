"""Every command of the project: no full disk is a traceback, and the status says so."""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from steelyard_agent.flags import STATUSES as AGENT
from steelyard_controller.flags import STATUSES as CONTROLLER
from steelyard_loadtest.reporting.exit_status import STATUSES as LOADTEST
from steelyard_reporter.settings import STATUSES as REPORTER

PAGE = Path(__file__).parents[2] / "docs/reference/exit-status.md"

PROGRAMS = [
    each
    for each in entry_points(group="console_scripts")
    if each.dist is not None and each.dist.name.startswith("steelyard-")
]


def test_the_commands() -> None:
    assert sorted(each.name for each in PROGRAMS) == [
        "steelyard", "steelyard-agent", "steelyard-controller", "steelyard-loadtest", "steelyard-reporter",
    ]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_a_wrong_flag_is_status_2_and_output_on_a_full_disk_is_one_line_and_status_7(
    program: EntryPoint,
) -> None:
    # In one process, because the imports take a second.
    code = f"""
import sys
from {program.module} import {program.attr} as main
for word in ("--nonsense", "--help"):
    sys.argv[1:] = [word]
    print(f"status {{main()}}", file=sys.stderr)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ran = subprocess.run(
            [sys.executable, "-c", code],
            stdout=full, stderr=subprocess.PIPE, text=True, check=True, env=environment,
        )  # fmt: skip
    *_, wrong, first, message, second = ran.stderr.splitlines()
    assert wrong.startswith(program.name)
    # With any output it would be 7.
    assert first == "status 2"
    assert message == f"{program.name}: standard output cannot be written: No space left on device"
    assert second == "status 7"


@pytest.mark.parametrize(
    ("program", "statuses"),
    [("agent", AGENT), ("controller", CONTROLLER), ("reporter", REPORTER), ("loadtest", LOADTEST)],
)
def test_the_page_has_every_exit_status(program: str, statuses: Mapping[int, str]) -> None:
    section = PAGE.read_text().partition(f"## `steelyard-{program}`\n")[2].partition("## ")[0]
    rows = [f"| {status} | {meaning} |" for status, meaning in statuses.items()]
    assert [line for line in section.splitlines() if line.startswith("| ")][1:] == rows
