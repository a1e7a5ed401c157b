"""Every command of the project: no full disk is a traceback, and the status says so."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points

import pytest

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
def test_output_on_a_full_disk_is_one_line_and_status_7(program: EntryPoint) -> None:
    code = f"import sys; from {program.module} import {program.attr} as main; sys.exit(main())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ran = subprocess.run(
            [sys.executable, "-c", code, "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment,
        )  # fmt: skip
    message = f"{program.name}: standard output cannot be written: No space left on device\n"
    assert (ran.returncode, ran.stderr) == (7, message)
