"""Ctrl-C during a study: the processes of its pool end at once and without a word."""

import os
import signal
import subprocess
import sys

from testing.waiting import PATIENCE_S

PROGRAM = """
import sys, time
from steelyard_simulator.studies.study import processes
try:
    with processes(2) as pool:
        pool.submit(int).result()
        print("running", flush=True)
        list(pool.map(time.sleep, [600, 600, 600]))
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_ctrl_c_ends_the_runs_under_way_without_a_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            assert process.communicate(timeout=PATIENCE_S) == ("", "")
        finally:
            process.kill()
    assert process.returncode == 130
