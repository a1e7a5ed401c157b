"""Reads each process of a stage (I/O)."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

from steelyard_resilience.soak.readings import MASTER, REDIS, WORKER, Reading, lua_bytes, redis_bytes
from steelyard_resilience.stage.stage import Stage


def readings(stage: Stage, at_s: float, status: Mapping[str, Any] | None) -> list[Reading]:
    """Return every process that runs now; status: nginx's, which tells LuaJIT's heap."""
    lua, read = lua_bytes(status), []
    for name, pid in _processes(stage):
        # A worker that has just ended is not there any more, and a Redis may hang: it is no error.
        with contextlib.suppress(OSError, ProgramError, psutil.Error, UnreadableError):
            heap = redis_bytes(stage.redis_command("INFO", "memory")) if name == REDIS else lua.get(pid)
            read.append(read_process(name, pid, at_s, heap))
    return read


def read_process(name: str, pid: int, at_s: float, heap_bytes: int | None = None) -> Reading:
    """Read one process. Raises OSError, psutil.Error or UnreadableError when it has ended."""
    private = private_bytes(Path(f"/proc/{pid}/status").read_text())
    process = psutil.Process(pid)
    return Reading(
        at_s=at_s,
        process=name,
        pid=pid,
        private_bytes=private,
        descriptors=process.num_fds(),
        threads=process.num_threads(),
        heap_bytes=heap_bytes,
    )


def private_bytes(status: str) -> int:
    """Return the anonymous memory in /proc/PID/status, resident or swapped out.

    Raises UnreadableError for a process that has ended and waits to be reaped.
    """
    # psutil tells it by reading each mapping, which takes a hundred times as long.
    kilobytes = re.findall(r"^(?:RssAnon|VmSwap):\s+(\d+) kB$", status, re.MULTILINE)
    if len(kilobytes) < 2:
        raise UnreadableError("/proc/PID/status has no RssAnon and VmSwap")
    return sum(map(int, kilobytes)) * 1024


def _processes(stage: Stage) -> Iterator[tuple[str, int]]:
    for name in stage.names:
        daemon = stage.daemon(name)
        if (pid := daemon.pid) is not None:
            yield MASTER if name == "nginx" else name, pid
            if name == "nginx":
                yield from ((WORKER, child) for child in daemon.children())
