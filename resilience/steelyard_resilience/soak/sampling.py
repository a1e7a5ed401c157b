"""Reads each process of a stage, and the whole from those who count (I/O)."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

from steelyard_resilience.soak.readings import (
    MASTER,
    MEMCACHED_BYTES,
    MEMCACHED_ITEMS,
    REDIS_KEYS,
    REDIS_USED_BYTES,
    WORKER,
    Overview,
    Reading,
    Soaked,
    counted,
    in_flight,
    lua_bytes,
)
from steelyard_resilience.stage.stage import Stage


def readings(stage: Stage, at_s: float, status: Mapping[str, Any] | None) -> list[Reading]:
    """Return every process that runs now; status: nginx's, which tells LuaJIT's heap."""
    lua, read = lua_bytes(status), []
    for name, pid in _processes(stage):
        # A worker that has just ended is not there any more: it is no error.
        with contextlib.suppress(OSError, psutil.Error, UnreadableError):
            read.append(read_process(name, pid, at_s, lua.get(pid)))
    return read


def read_process(name: str, pid: int, at_s: float, lua: int | None = None) -> Reading:
    """Read one process. Raises OSError, psutil.Error or UnreadableError when it has ended."""
    private = private_bytes(Path(f"/proc/{pid}/status").read_text())
    process = psutil.Process(pid)
    with process.oneshot():
        times = process.cpu_times()
        return Reading(
            at_s=at_s,
            process=name,
            pid=pid,
            private_bytes=private,
            resident_bytes=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            cpu_s=times.user + times.system,
            lua_bytes=lua,
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


def overview(stage: Stage, status: Mapping[str, Any] | None, soaked: Soaked, at_s: float) -> Overview:
    """Ask the stores, and add what the status and the run say; who does not answer is left out."""
    memcached = _asked(lambda: stage.memcached_command("stats"))
    return Overview(
        at_s=at_s,
        sent=soaked.sent,
        failed=soaked.failures.total(),
        steps=soaked.steps,
        in_flight=in_flight(status),
        dict_free_bytes=status.get("dict_free_bytes") if status else None,
        items=counted(MEMCACHED_ITEMS, memcached),
        items_bytes=counted(MEMCACHED_BYTES, memcached),
        redis_bytes=counted(REDIS_USED_BYTES, _asked(lambda: stage.redis_command("INFO", "memory"))),
        keys=counted(REDIS_KEYS, _asked(lambda: stage.redis_command("DBSIZE"))),
    )


def _processes(stage: Stage) -> Iterator[tuple[str, int]]:
    for name in stage.names:
        daemon = stage.daemon(name)
        if (pid := daemon.pid) is not None:
            yield MASTER if name == "nginx" else name, pid
            if name == "nginx":
                yield from ((WORKER, child) for child in daemon.children())


def _asked(ask: Callable[[], bytes]) -> bytes:
    try:
        return ask()
    except (OSError, ProgramError):
        return b""
