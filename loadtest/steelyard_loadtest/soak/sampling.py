"""Reads each process of a stage from /proc, and the whole from those who count (I/O)."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.soak.procfs_text import parse_cpu_ticks, parse_status
from steelyard_loadtest.soak.records import MASTER, WORKER, Reading
from steelyard_loadtest.stage.stage import Stage

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NGINX = "nginx"


def readings(stage: Stage, at_s: float, lua: Mapping[int, int]) -> list[Reading]:
    """Return every process that runs now; lua: LuaJIT's heap by pid, as nginx's status told it."""
    found = []
    for name, pid in _processes(stage):
        # A worker that has just ended is not there any more: it is no error.
        with contextlib.suppress(OSError, UnreadableError):
            found.append(read_process(name, pid, at_s, lua.get(pid)))
    return found


def read_process(name: str, pid: int, at_s: float, lua: int | None = None) -> Reading:
    """Read one process. Raises OSError or UnreadableError when it has ended."""
    folder = Path(f"/proc/{pid}")
    status = parse_status((folder / "status").read_text())
    return Reading(
        at_s=at_s,
        process=name,
        pid=pid,
        private_bytes=status.private_bytes,
        resident_bytes=status.resident_bytes,
        descriptors=len(os.listdir(folder / "fd")),  # noqa: PTH208 - their names alone, many times a second
        threads=status.threads,
        cpu_s=parse_cpu_ticks((folder / "stat").read_text()) / TICKS_PER_S,
        lua_bytes=lua,
    )


def _processes(stage: Stage) -> Iterator[tuple[str, int]]:
    for name in stage.names:
        daemon = stage.daemon(name)
        pid = daemon.pid
        if pid is None:
            continue
        if name != NGINX:
            yield name, pid
            continue
        yield MASTER, pid
        with contextlib.suppress(ProgramError, OSError):
            for child in daemon.children():
                yield WORKER, child
