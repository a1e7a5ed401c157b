"""The process scope: a process and all its descendants, on a machine that runs several services.

I/O only, Linux only. /proc is read directly: `psutil.Process.children` visits
every process of the machine (2 ms at 120 of them), /proc/<pid>/task/<tid>/children
only those of the tree.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steelyard_agent import procfs
from steelyard_agent.procfs import Stat
from steelyard_agent.reading import Absent, ProcessCounters, ProcessReading
from steelyard_agent.readings.columns import Columns

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# linux/posix-timers.h: with a process id in the upper bits, the clock of that process's run time.
CPUCLOCK_SCHED = 2

# Below that it is not worth counting the machine's processes.
FEW_THREADS = 64

# A PID file holds a number; no more of it is read.
PID_FILE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The process to watch: a pid, or a file that holds one and may change."""

    pid: int | None = None
    pid_file: Path | None = None


class ProcessReader:
    """Reads the tree below a target; `proc` is where procfs is.

    `count_io` costs one more file for each process and needs the right to trace it.
    """

    def __init__(
        self,
        target: Target,
        *,
        count_io: bool = False,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[int], float] = lambda pid: time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED),
        proc: str = "/proc",
    ) -> None:
        self._target = target
        self._count_io = count_io
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._proc = proc
        self._columns = Columns()
        self._first_started_s: float | None = None
        self._threads = 0

    def __call__(self) -> ProcessReading | Absent:
        """Read the tree, or say why there is none; never raises."""
        pid = self._pid()
        if isinstance(pid, Absent):
            return pid
        at_s, uptime_s = self._clock(), time.clock_gettime(time.CLOCK_BOOTTIME)
        root = self._stat(pid)
        if root is None or root.ended:
            return Absent(f"{self._named(pid)} is not running")
        if self._target.pid is not None and self._is_another(root):
            return Absent(f"process {pid} has ended, and another one has its number now")
        return ProcessReading(
            at_s=at_s,
            uptime_s=uptime_s,
            root_pid=pid,
            name=root.name,
            processes=self._tree(pid, root),
            cores=self._columns.read("cpu affinity", lambda: len(os.sched_getaffinity(pid))),
            machine_cores=os.cpu_count(),
            memory_total_bytes=self._columns.read("memory size", _memory_total_bytes),
        )

    def _pid(self) -> int | Absent:
        path = self._target.pid_file
        if path is None:
            return self._target.pid or Absent("no process was named")
        try:
            text = _read(str(path), PID_FILE_BYTES)
        except FileNotFoundError:
            return Absent(f"PID file {path} is not there")
        except OSError as error:
            return Absent(f"PID file {path} cannot be read ({error.strerror})")
        return procfs.parse_pid(text) or Absent(f"PID file {path} holds no process number")

    def _named(self, pid: int) -> str:
        path = self._target.pid_file
        return f"process {pid}" + (f", which PID file {path} names," if path else "")

    def _is_another(self, root: Stat) -> bool:
        started_s = root.started_ticks / TICKS_PER_S
        if self._first_started_s is None:
            self._first_started_s = started_s
        return started_s != self._first_started_s

    def _tree(self, pid: int, root: Stat) -> dict[int, ProcessCounters]:
        children_of = self._children if self._lists_are_cheaper(pid) else self._children_by_scan()
        found = {pid: self._counters(pid, root)}
        threads = root.threads
        waiting = list(children_of(pid))
        while waiting:
            child = waiting.pop()
            stat = self._stat(child) if child not in found else None
            if stat is not None:
                found[child] = self._counters(child, stat)
                threads += stat.threads
                waiting.extend(children_of(child))
        self._threads = threads
        return found

    def _lists_are_cheaper(self, pid: int) -> bool:
        # A list is a file for each thread of the tree, a scan one for each process of the machine.
        listed = Path(f"{self._proc}/{pid}/task/{pid}/children").exists()
        return listed and (self._threads <= FEW_THREADS or self._threads <= len(_names(self._proc)))

    def _stat(self, pid: int) -> Stat | None:
        try:
            return procfs.parse_stat(_read(f"{self._proc}/{pid}/stat"))
        except (OSError, ValueError):  # it has just ended
            return None

    def _counters(self, pid: int, stat: Stat) -> ProcessCounters:
        io_calls = None
        if self._count_io:
            io_calls = self._columns.read("io", lambda: self._io_calls(pid))
        return ProcessCounters(
            parent_pid=stat.parent_pid,
            started_s=stat.started_ticks / TICKS_PER_S,
            cpu_s=self._cpu_s(pid, stat),
            reaped_cpu_s=stat.reaped_cpu_ticks / TICKS_PER_S,
            rss_bytes=stat.rss_pages * PAGE_BYTES,
            io_calls=io_calls,
        )

    def _cpu_s(self, pid: int, stat: Stat) -> float:
        # In ns and for every user's processes; procfs counts 10 ms, a 15th of what 0.15 cores do in 1 s.
        try:
            return self._cpu_clock(pid)
        except OSError:  # it has just ended
            return stat.cpu_ticks / TICKS_PER_S

    def _io_calls(self, pid: int) -> int:
        return procfs.parse_io_calls(_read(f"{self._proc}/{pid}/io"))

    def _children(self, pid: int) -> list[int]:
        """Return a process's children: each thread lists those it forked."""
        children: list[int] = []
        for thread in _names(f"{self._proc}/{pid}/task"):
            with suppress(OSError, ValueError):  # the thread has just ended; another one has its children now
                children.extend(map(int, _read(f"{self._proc}/{pid}/task/{thread}/children").split()))
        return children

    def _children_by_scan(self) -> Callable[[int], list[int]]:
        """Return every process's children, from each one's parent: for kernels without the lists."""
        children: defaultdict[int, list[int]] = defaultdict(list)
        for entry in _names(self._proc):
            stat = self._stat(int(entry)) if entry.isdigit() else None
            if stat is not None:
                children[stat.parent_pid].append(int(entry))
        return lambda pid: children[pid]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 (thrice as fast as Path.iterdir, many times a tick)
    except OSError:  # the process has just ended
        return []


def _read(path: str, longest: int = 1024 * 1024) -> bytes:
    # Half as dear as Path.read_bytes. procfs may return less than is asked for: read on to the end.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while longest > 0 and (part := os.read(file, min(longest, 4096))):
            parts.append(part)
            longest -= len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def _memory_total_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
