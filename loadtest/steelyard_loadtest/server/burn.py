"""Starts and stops the CPU burners of one server: its noisy neighbours.

They are children of the server, so they fall under its CPU limit, whichever
means holds it.
"""

import os
import subprocess
import sys
from pathlib import Path

BURNER = Path(__file__).with_name("burner.py")


class Burners:
    """The burner processes that this server started; starting again replaces them."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *, seconds: int, workers: int) -> None:
        """Stop what burns, then start `workers` processes that spin for `seconds`."""
        self.stop()
        # -S -E: no site-packages and no environment, which halves the start.
        command = [sys.executable, "-S", "-E", str(BURNER), str(seconds), str(os.getpid())]
        self._running = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(workers)]

    def stop(self) -> int:
        """Stop all burners and say how many still ran."""
        still_running = self.count()
        for burner in self._running:
            burner.kill()  # a burner has nothing to clean up, and SIGKILL works on a stopped one too
        for burner in self._running:
            burner.wait()
        self._running = []
        return still_running

    def count(self) -> int:
        """Count the burners that run, and reap those that ended."""
        self._running = [burner for burner in self._running if burner.poll() is None]
        return len(self._running)
