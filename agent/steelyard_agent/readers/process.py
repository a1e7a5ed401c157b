"""Reads the process scope: a process and all its descendants, on a machine that runs several services.

I/O only, Linux only. /proc is read directly: `psutil.Process.children` visits
every process of the machine (2 ms at 120 of them), /proc/<pid>/task/<tid>/children
only those of the tree.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from steelyard_agent import proc_text
from steelyard_agent.proc_text import Stat
from steelyard_agent.readers import cgroup_files
from steelyard_agent.readers.files import ColumnReader, below, names, read
from steelyard_agent.readers.process_finder import Find, Found, Target, finder
from steelyard_agent.scopes.process import ProcessCounters, ProcessReading
from steelyard_agent.scopes.reading import Absent

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# linux/posix-timers.h: with a process id in the upper bits, the clock of that process's run time.
CPUCLOCK_SCHED = 2

# With fewer threads in the tree it is not worth counting the machine's processes.
FEW_THREADS = 64

# A process that started this long after its PID file was written is another one with the same number. A
# number that is given out again sooner goes unnoticed. A smaller bound would misjudge a machine whose wall
# clock was set right after the boot, because the file's time is on that clock.
STALE_S = 60.0


class ProcessReader:
    """Reads the tree below a target, or below what `find` finds; `root` is where /proc is.

    `count_io` costs one more file for each process and needs the right to trace it.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        find: Find | None = None,
        root: Path = Path("/"),
        count_io: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        cpu_clock: Callable[[int], float] = lambda pid: time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED),
    ) -> None:
        self._find = find or finder(target or Target(), root, clock)
        self._count_io = count_io
        self._clock = clock
        self._wall_clock = wall_clock
        self._cpu_clock = cpu_clock
        self._root, self._proc = root, below(root, "/proc")
        self._mounts = cache(lambda: cgroup_files.mounts(root))  # a host of containers has thousands of lines
        self._columns = ColumnReader()
        self._known: tuple[Found, float] | None = None
        self._threads = 0
        self._io_fault: Exception | None = None

    def __call__(self) -> ProcessReading | Absent:
        """Read the tree, or say why there is none; never raises."""
        found = self._find()
        if isinstance(found, Absent):
            return found
        pid = found.pid
        at_s, uptime_s = self._clock(), time.clock_gettime(time.CLOCK_BOOTTIME)
        root = self._stat(pid)
        if root is None or root.ended:
            return Absent(f"{found.named} is not running")
        another = self._another(found, root.started_ticks / TICKS_PER_S, uptime_s)
        if another is not None:
            return another
        processes = self._tree(pid, root)
        if self._count_io:
            self._columns.read("io", self._no_io_fault)
        return ProcessReading(
            at_s=at_s,
            uptime_s=uptime_s,
            root_pid=pid,
            name=root.name,
            processes=processes,
            cores=self._columns.read("cpu affinity", lambda: len(os.sched_getaffinity(pid))),
            quota_cores=self._columns.read(
                "cpu quota", lambda: cgroup_files.quota_cores_of(self._root, pid, self._mounts())
            ),
            machine_cores=os.cpu_count(),
            memory_total_bytes=self._columns.read("memory size", _memory_total_bytes),
            sources={"found": found.source, "tree": f"/proc/{pid}"},
        )

    def _another(self, found: Found, started_s: float, uptime_s: float) -> Absent | None:
        """Return why the process is not the one that was meant; its number was given out again."""
        if self._known is not None and (self._known[0].pid, self._known[0].stamp) == (found.pid, found.stamp):
            if started_s != self._known[1]:
                return Absent(f"process {found.pid} has ended, and another one has its number now")
            return None
        if found.written_s is not None:
            started_at_s = self._wall_clock() - uptime_s + started_s
            if started_at_s > found.written_s + STALE_S:
                return Absent(
                    f"{found.named} started after that file was written: another process has that number now "
                    "(if it is the right one, and the clock was set since, touch the file)"
                )
        self._known = found, started_s
        return None

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
        return listed and (self._threads <= FEW_THREADS or self._threads <= len(names(self._proc)))

    def _stat(self, pid: int) -> Stat | None:
        try:
            return proc_text.parse_stat(read(f"{self._proc}/{pid}/stat"))
        except (OSError, ValueError):  # it has just ended
            return None

    def _counters(self, pid: int, stat: Stat) -> ProcessCounters:
        io_calls = None
        if self._count_io:
            try:
                io_calls = self._io_calls(pid)
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                pass
            except Exception as error:
                self._io_fault = error
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

    def _no_io_fault(self) -> None:
        # Logged once for the whole tree: where some processes may be read and some not, each would be logged.
        fault, self._io_fault = self._io_fault, None
        if fault is not None:
            raise fault

    def _io_calls(self, pid: int) -> int:
        return proc_text.parse_io_calls(read(f"{self._proc}/{pid}/io"))

    def _children(self, pid: int) -> list[int]:
        """Return a process's children: each thread lists those it forked."""
        children: list[int] = []
        for thread in names(f"{self._proc}/{pid}/task"):
            with suppress(OSError, ValueError):  # the thread has just ended; another one has its children now
                children.extend(map(int, read(f"{self._proc}/{pid}/task/{thread}/children").split()))
        return children

    def _children_by_scan(self) -> Callable[[int], list[int]]:
        """Return every process's children, from each one's parent: for kernels without the lists."""
        children: defaultdict[int, list[int]] = defaultdict(list)
        for entry in names(self._proc):
            stat = self._stat(int(entry)) if entry.isdigit() else None
            if stat is not None:
                children[stat.parent_pid].append(int(entry))
        return lambda pid: children[pid]


def _memory_total_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
