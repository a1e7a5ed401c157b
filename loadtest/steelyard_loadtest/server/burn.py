"""Starts and stops the CPU burners of one server: its noisy neighbours.

They are children of the server, so its control group's limit applies to them. Without a group each holds its
part of the limit itself.
"""

import os
import subprocess
import sys
from pathlib import Path

BURNER = Path(__file__).with_name("burner.py")


class Burners:
    """The burner processes that this server started; starting again replaces them.

    paced_cores: the limit that they and the server share and hold themselves; None without one.
    """

    def __init__(self, paced_cores: float | None = None) -> None:
        self._cores = paced_cores
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *, seconds: int, workers: int) -> None:
        """Stop present burners, then start `workers` processes that spin for `seconds`."""
        self.stop()
        share = 1.0 if self._cores is None else self._cores / (1 + workers)
        # -S -E: no site-packages and no environment, which halves the start.
        command = [sys.executable, "-S", "-E", str(BURNER), str(seconds), str(os.getpid()), str(share)]
        self._running = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(workers)]

    def stop(self) -> int:
        """Stop all burners and return how many still ran."""
        still_running = self.count()
        for burner in self._running:
            burner.kill()  # a burner has nothing to clean up
        for burner in self._running:
            burner.wait()
        self._running = []
        return still_running

    def count(self) -> int:
        """Count the burners that run, and reap those that ended; from any thread."""
        return sum(burner.poll() is None for burner in self._running)
