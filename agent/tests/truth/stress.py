"""stress-ng at a known CPU load, and its real run time from the kernel's scheduler. I/O only.

stress-ng keeps to a load by the clock, and other load or a quota leaves it
less. So the known figure is not the requested load but /proc/<pid>/schedstat (ns).
The agent reads that file in no scope.
"""

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .counts import Seen, rate

# It has started its workers and measured its own speed by then.
STEADY_AFTER_S = 0.7

LOOK_EVERY_S = 0.02


class Ran:
    """The run time of a process and its children; a thread reads it while the context lasts."""

    def __init__(self, pid: int) -> None:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        self._files = [Path(f"/proc/{one}/schedstat") for one in (pid, *children)]
        self._seen: list[Seen] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def cores(self, begin_s: float, end_s: float) -> float:
        """Return the CPU seconds a second from one moment to another, both in seconds since 1970."""
        while self._thread.is_alive() and (not self._seen or self._seen[-1][0] < end_s):
            time.sleep(LOOK_EVERY_S)
        return rate(self._seen, begin_s, end_s)

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            spent_ns = sum(int(file.read_text(encoding="utf-8").split()[0]) for file in self._files)
            self._seen.append((time.time(), spent_ns / 1e9))


@contextmanager
def cpu(percent: int, *, workers: int = 1, prefix: Sequence[str] = ()) -> Iterator[tuple[int, Ran]]:
    """Load a percentage of a core with each worker while the context lasts; give the pid and its run time."""
    command = [*prefix, "stress-ng", "--quiet", "--cpu", str(workers), "--cpu-load", str(percent)]
    with subprocess.Popen(command) as process:
        try:
            time.sleep(STEADY_AFTER_S)
            if process.poll() is not None:
                raise RuntimeError(f"stress-ng ended at once with status {process.returncode}")
            ran = Ran(process.pid)
            try:
                yield process.pid, ran
            finally:
                ran.stop()
        finally:
            process.terminate()
            process.wait()


def why_not() -> str | None:
    """Return why there is no stress-ng; None if there is."""
    return None if shutil.which("stress-ng") else "stress-ng is not installed"
