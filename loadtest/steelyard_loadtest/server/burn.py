"""Starts and stops the processes that use a server's CPU beside its requests: a noisy neighbour, a busy wait.

They are children of the server, so its control group's limit applies to them. Without a group each holds its
part of the limit itself.
"""

import os
import subprocess
import sys
from pathlib import Path

BURNER = Path(__file__).with_name("burner.py")
SPINNER = Path(__file__).with_name("spinner.py")


class Burners:
    """The burner processes that this server started; starting again replaces them.

    limit_cores: the limit that they share with the server; None without one. paced: they and the server hold
    it themselves.
    """

    def __init__(self, limit_cores: float | None = None, *, paced: bool = False) -> None:
        self._cores, self._paced = limit_cores, paced
        self._running: list[subprocess.Popen[bytes]] = []
        self._left = 1.0

    def start(self, *, seconds: int, workers: int, part: float | None = None) -> None:
        """Stop present burners, then start `workers` processes that spin for `seconds`.

        part: the part of the limit (or of a core) that they take at most together; None: all that they get.
        """
        self.stop()
        self._left = 1 / (1 + workers) if part is None else 1 - part
        share = 1.0
        if part is not None:
            share = part * (self._cores or 1.0) / workers
        elif self._paced and self._cores is not None:
            share = self._cores * self._left
        self._running = [self._start(BURNER, seconds, share) for _ in range(workers)]

    def wait_busily(self, seconds: int) -> None:
        """Stop present burners, then use the CPU that requests leave of the limit for `seconds`."""
        self.stop()
        self._left = 1.0
        self._running = [self._start(SPINNER, seconds, self._cores or 1.0)]

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

    def left(self) -> float:
        """Return the part of the limit that is the server's now; from any thread."""
        return self._left if self.count() else 1.0

    def _start(self, program: Path, seconds: int, cores: float) -> subprocess.Popen[bytes]:
        # -S -E: no site-packages and no environment, which halves the start.
        command = [sys.executable, "-S", "-E", str(program), str(seconds), str(os.getpid()), str(cores)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL)
