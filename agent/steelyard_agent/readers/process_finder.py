"""Finds the process to watch: by its pid, a PID file, or its TCP port. I/O only.

The kernel's list of sockets names no processes: the holder of a socket shows only
in each process's open files. That search through every process costs
milliseconds, so it is repeated only each ten seconds. Until then, a reload that hands
the port to another process goes unnoticed while the old one lives.

`psutil.net_connections` would name any one of the processes that share a socket, and makes an
object of every connection of the machine: on a busy server, tens of thousands.
"""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from steelyard_agent import kernel_text
from steelyard_agent.readers.files import below, names, read_or_none
from steelyard_agent.scopes.reading import Absent

# Exceptions of psutil and the kernel's files for a process that ends during the reading.
GONE = (psutil.Error, OSError, ValueError, LookupError, RuntimeError)
ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)

# A PID file holds a number; only this much of it is read.
PID_FILE_BYTES = 64

SEARCH_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of the process scope, by one of these.

    `pid_file` holds a pid and may change; `port` is a listening TCP port; `unit` is systemd's.
    """

    pid: int | None = None
    pid_file: Path | None = None
    port: int | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetProcess:
    """A process by number.

    As long as `stamp` is unchanged, the pid must still be the same process, because nothing has named
    another one since. `written_s` (seconds since 1970) is when the PID file was written.
    """

    pid: int
    named: str
    stamp: tuple[int, ...] = ()
    written_s: float | None = None
    source: str = ""


Find = Callable[[], TargetProcess | Absent]


def finder(target: Target, root: Path, clock: Callable[[], float]) -> Find:
    """Return the finder of a target's process; a unit is found by its control group instead."""
    match target:
        case Target(pid=int(pid)):
            named = TargetProcess(pid=pid, named=f"process {pid}", source="the given pid")
            return lambda: named
        case Target(pid_file=Path() as path):
            return lambda: _in_file(path)
        case Target(port=int(port)):
            return PortFinder(port, root, clock)
    return lambda: Absent("no process was named")


def _in_file(path: Path) -> TargetProcess | Absent:
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
    pid = kernel_text.parse_pid(text)
    if pid is None:
        return Absent(f"PID file {path} holds no process number")
    return TargetProcess(
        pid=pid,
        named=f"process {pid}, which PID file {path} names,",
        stamp=(status.st_ino, status.st_mtime_ns),
        written_s=status.st_mtime,
        source=str(path),
    )


class PortFinder:
    """Finds the topmost listener: nginx's workers hold the socket too, and its master is the one to watch."""

    def __init__(self, port: int, root: Path, clock: Callable[[], float]) -> None:
        self._port = port
        self._proc = below(root, "/proc")
        self._clock = clock
        self._last: TargetProcess | Absent | None = None
        self._process: psutil.Process | None = None
        self._searched_at_s = 0.0
        self._searches = 0

    def __call__(self) -> TargetProcess | Absent:
        """Return the listener, or the reason for its absence; never raises."""
        now_s = self._clock()
        lost = isinstance(self._last, TargetProcess) and not is_alive(self._process)
        if self._last is None or lost or not 0 <= now_s - self._searched_at_s < SEARCH_AGAIN_S:
            inodes = self._inodes()
            if not inodes:  # cheap to see, so it is looked at every time
                self._last = None
                return Absent(f"nothing listens on port {self._port}")
            self._last, self._searched_at_s = self._search(inodes), now_s
        return self._last

    def _inodes(self) -> set[int]:
        inodes: set[int] = set()
        for table in ("tcp", "tcp6"):
            text = read_or_none(f"{self._proc}/net/{table}")
            inodes |= kernel_text.parse_listeners(text, self._port) if text is not None else set()
        return inodes

    def _search(self, inodes: Collection[int]) -> TargetProcess | Absent:
        holders: dict[psutil.Process, tuple[int, float]] = {}
        for name in names(self._proc):
            if self._holds(name, inodes):
                with suppress(*GONE):
                    process = psutil.Process(int(name))
                    holders[process] = process.ppid(), process.create_time()
        pids = {process.pid for process in holders}
        if len(pids) > 1:
            pids.discard(1)  # systemd holds the sockets that it started a service for
        tops = [one for one, (parent, _) in holders.items() if one.pid in pids and parent not in pids]
        if not tops:
            return Absent(f"the process with port {self._port} belongs to another user")
        # With SO_REUSEPORT several may listen: the oldest.
        self._process = min(tops, key=lambda top: (holders[top][1], top.pid))
        pid = self._process.pid
        self._searches += 1
        return TargetProcess(
            pid=pid,
            named=f"process {pid}, which listens on port {self._port},",
            stamp=(self._searches,),
            source=f"/proc/net/tcp (port {self._port}), /proc/{pid}/fd",
        )

    def _holds(self, name: str, inodes: Collection[int]) -> bool:
        folder = f"{self._proc}/{name}/fd"
        return name.isdigit() and any(self._inode(f"{folder}/{file}") in inodes for file in names(folder))

    def _inode(self, path: str) -> int | None:
        try:
            return kernel_text.parse_socket_link(os.readlink(path))  # noqa: PTH115 (thousands of them)
        except OSError:  # closed meanwhile
            return None


def is_alive(process: psutil.Process | None) -> bool:
    """Return whether this very process runs, and does not only wait to be reaped."""
    try:
        return process is not None and process.is_running() and process.status() not in ENDED
    except GONE:
        return False
