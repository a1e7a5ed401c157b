"""A program's standard streams, ctrl-C and exit status, each in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from steelyard_protocol import console_program

START = """
import sys
from steelyard_protocol import console_program
sys.path.insert(0, sys.argv.pop(1))
sys.exit(console_program.run("prog", "program_under_test"))
"""

NO_SPACE = "prog: standard output cannot be written: No space left on device\n"


def start(folder: Path, program: str, streams: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run the program's text with the shell's redirections; `$it` is its command."""
    (folder / "program_under_test.py").write_text(program)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {streams}', "-", sys.executable, "-c", START, str(folder)],
        capture_output=True, text=True, check=False, timeout=60, env=environment | more,
    )  # fmt: skip


PRINTS = """
import sys
def main():
    for number in range(10_000):
        print(number)
    print("the work is done", file=sys.stderr)
    return STATUS
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("status", "seen"), [("None", 7), ("0", 7), ("5", 5)])
def test_on_a_full_disk_the_work_is_finished_and_the_status_is_7(
    status: str, seen: int, unbuffered: str, tmp_path: Path
) -> None:
    ran = start(tmp_path, PRINTS.replace("STATUS", status), ">/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (ran.returncode, ran.stderr) == (seen, f"the work is done\n{NO_SPACE}")


@pytest.mark.parametrize("status", [0, 1])
def test_a_reader_that_leaves_is_no_fault(status: int, tmp_path: Path) -> None:
    ran = start(tmp_path, PRINTS.replace("STATUS", str(status)), "| true")
    assert (ran.returncode, ran.stderr) == (status, "the work is done\n")


def test_output_that_fits_arrives_whole(tmp_path: Path) -> None:
    ran = start(tmp_path, PRINTS.replace("STATUS", "0"))
    assert ran.stdout == "".join(f"{number}\n" for number in range(10_000))


def test_a_pipe_that_does_not_block_is_waited_for(tmp_path: Path) -> None:
    program = "import os\nos.set_blocking(1, False)\n" + PRINTS.replace("STATUS", "0")
    ran = start(tmp_path, program, "| { sleep 0.2; tail -n 1; }")
    assert (ran.returncode, ran.stdout) == (0, "9999\n")


def test_a_closed_standard_output_is_said_and_the_next_file_does_not_take_its_place(tmp_path: Path) -> None:
    file = tmp_path / "a_file"
    program = f"def main():\n    with open({str(file)!r}, 'w') as file:\n        print('text')\n"
    ran = start(tmp_path, program, ">&-")
    assert (ran.returncode, file.read_text()) == (7, "")
    assert ran.stderr == "prog: standard output cannot be written: Bad file descriptor\n"


def test_without_output_closed_streams_are_no_fault(tmp_path: Path) -> None:
    ran = start(tmp_path, "def main():\n    return 0\n", "<&- >&- 2>&-")
    assert ran.returncode == 0


def test_a_closed_standard_input_is_an_error_of_the_system(tmp_path: Path) -> None:
    program = """
import sys
def main():
    try:
        sys.stdin.read()
    except OSError as error:
        print(error.strerror)
"""
    assert start(tmp_path, program, "<&-").stdout == "Bad file descriptor\n"


def test_a_full_standard_error_changes_no_status(tmp_path: Path) -> None:
    program = "import sys\ndef main():\n    print('a fault', file=sys.stderr)\n    return 3\n"
    assert start(tmp_path, program, "2>/dev/full").returncode == 3


def test_a_help_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    # argparse ignores the error of a long help.
    program = """
import argparse
def main():
    argparse.ArgumentParser(description="word " * 5000).parse_args(["--help"])
"""
    ran = start(tmp_path, program, ">/dev/full")
    assert (ran.returncode, ran.stderr) == (7, NO_SPACE)


def test_a_text_as_the_end_is_an_error_line(tmp_path: Path) -> None:
    ran = start(tmp_path, "import sys\ndef main():\n    sys.exit('no way')\n")
    assert (ran.returncode, ran.stderr) == (1, "no way\n")


INTERRUPT = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"


def test_ctrl_c_during_the_imports_ends_it_silently(tmp_path: Path) -> None:
    ran = start(tmp_path, INTERRUPT + "def main():\n    return 0\n", "; exit $?")
    assert (ran.returncode, ran.stderr) == (console_program.INTERRUPTED, "")


def test_ctrl_c_during_the_work_is_130_and_what_was_printed_arrives(tmp_path: Path) -> None:
    program = "import os, signal\ndef main():\n    print('half')\n    os.kill(os.getpid(), signal.SIGINT)\n"
    ran = start(tmp_path, program, "; exit $?")
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "half\n", "")


def test_ctrl_c_at_the_end_is_silent(tmp_path: Path) -> None:
    program = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
    ran = start(tmp_path, program + "def main():\n    return 0\n", "; exit $?")
    assert (ran.returncode, ran.stderr) == (130, "")


def test_a_program_in_the_background_goes_on_ignoring_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "program_under_test.py").write_text(
        INTERRUPT + "def main():\n    " + INTERRUPT.split("\n")[1]
    )
    ran = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path)],
        check=False, timeout=60, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert ran.returncode == 0
