"""Finds the process to watch: by its pid, or by a PID file. I/O only."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steelyard_agent import procfs
from steelyard_agent.reading import Absent

# A PID file holds a number; no more of it is read.
PID_FILE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A process by number.

    While `stamp` is the same, so must the process be: nobody has said since that
    the number is another one's. `written_s` (seconds since 1970) is when the number was written down.
    """

    pid: int
    named: str
    stamp: tuple[int, ...] = ()
    written_s: float | None = None
    source: str = ""


Find = Callable[[], Found | Absent]


def by_pid(pid: int) -> Find:
    """Find a process by its number."""
    return lambda: Found(pid=pid, named=f"process {pid}", source="the given pid")


def by_file(path: Path) -> Find:
    """Find a process by a file that holds its number, read each time."""
    return lambda: _in_file(path)


def _in_file(path: Path) -> Found | Absent:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO must not hold the agent
        try:
            text, status = os.read(file, PID_FILE_BYTES), os.fstat(file)
        finally:
            os.close(file)
    except FileNotFoundError:
        return Absent(f"PID file {path} is not there")
    except OSError as error:
        return Absent(f"PID file {path} cannot be read ({error.strerror})")
    pid = procfs.parse_pid(text)
    if pid is None:
        return Absent(f"PID file {path} holds no process number")
    return Found(
        pid=pid,
        named=f"process {pid}, which PID file {path} names,",
        stamp=(status.st_ino, status.st_mtime_ns),
        written_s=status.st_mtime,
        source=str(path),
    )
