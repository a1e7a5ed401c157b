"""Reads the process scope: a process and all its descendants, on a machine that runs several services.

I/O only, Linux only. psutil reads the processes. Their list comes from the kernel's lists of
children, if it has them, because `psutil.Process.children` visits every process of the machine
(40 µs each). Their CPU time comes from the processes' own clocks, because procfs counts in 10 ms.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from steelyard_agent.readers import cgroup_files
from steelyard_agent.readers.files import ColumnReader, below, exists, names, read
from steelyard_agent.readers.process_finder import ENDED, GONE, Find, Target, TargetProcess, finder
from steelyard_agent.scopes.process import ProcessCounters, ProcessReading
from steelyard_agent.scopes.reading import Absent

# linux/posix-timers.h: with a process id in the upper bits, the clock of that process's run time.
CPUCLOCK_SCHED = 2

# With fewer threads in the tree it is not worth counting the machine's processes.
FEW_THREADS = 64

# The kernel has a list of children for each thread. To read four of them takes as long as a scan of all
# processes takes for each process.
CHILD_LISTS_PER_SCANNED_PROCESS = 4

# A process that started this long after its PID file was written is another one with the same number. A
# number reused sooner goes unnoticed. A smaller bound would misjudge a machine whose wall
# clock was set right after the boot, because the file's time is on that clock.
STALE_S = 60.0


class ProcessReader:
    """Reads the tree below a target, or below the result of `find`.

    `root` is the parent of /proc, and `psutil.PROCFS_PATH` must agree. `count_io` costs one more file for
    each process and needs the right to trace it.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        find: Find | None = None,
        root: Path = Path("/"),
        count_io: bool = False,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[int], float] = lambda pid: time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED),
    ) -> None:
        self._root = root
        self._count_io = count_io
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._find = find or finder(target or Target(), root, clock)
        self._proc = below(root, "/proc")
        # A host of containers has thousands of lines.
        self._mounts = cache(lambda: cgroup_files.mounts(root))
        self._columns = ColumnReader()
        self._known: tuple[TargetProcess, psutil.Process] | None = None
        self._members: dict[int, psutil.Process] = {}
        self._started_s: dict[psutil.Process, float] = {}
        self._threads = 0
        self._io_fault: Exception | None = None

    def __call__(self) -> ProcessReading | Absent:
        """Read the tree, or return the reason for its absence; never raises."""
        target = self._find()
        if isinstance(target, Absent):
            return target
        at_s, uptime_s = self._clock(), time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            root = psutil.Process(target.pid)
            with root.oneshot():
                name, ended, own = root.name(), root.status() in ENDED, self._counters(root, parent_pid=0)
            absent = Absent(f"{target.named} is not running") if ended else self._another(target, root)
        except GONE:
            absent = Absent(f"{target.named} is not running")
        if absent is not None:
            return absent
        processes = {root: own, **self._below(root)}
        self._members = {process.pid: process for process in processes}
        self._started_s = {process: counters.started_s for process, counters in processes.items()}
        if self._count_io:
            self._columns.read("io", self._no_io_fault)
        return ProcessReading(
            at_s=at_s,
            uptime_s=uptime_s,
            root_pid=root.pid,
            name=name,
            processes={process.pid: counters for process, counters in processes.items()},
            cores=self._columns.read("cpu affinity", lambda: len(root.cpu_affinity() or ())),
            quota_cores=self._columns.read(
                "cpu quota", lambda: cgroup_files.quota_cores_of(self._root, root.pid, self._mounts())
            ),
            machine_cores=psutil.cpu_count(),
            memory_total_bytes=self._columns.read("memory size", lambda: psutil.virtual_memory().total),
            sources={"target": target.source, "tree": f"/proc/{root.pid}"},
        )

    def _another(self, target: TargetProcess, process: psutil.Process) -> Absent | None:
        """Return why the process is not the intended one; its number was reused."""
        known, known_process = self._known or (None, None)
        if known is not None and (known.pid, known.stamp) == (target.pid, target.stamp):
            if process != known_process:
                return Absent(f"process {target.pid} has ended, and another one has its number now")
            return None
        if target.written_s is not None and process.create_time() > target.written_s + STALE_S:
            return Absent(
                f"{target.named} started after that file was written: another process has that number now "
                "(if it is the right one, and the clock was set since, touch the file)"
            )
        self._known = target, process
        return None

    def _below(self, root: psutil.Process) -> dict[psutil.Process, ProcessCounters]:
        descendants = self._listed(root) if self._lists_are_cheaper(root) else self._scanned(root)
        self._threads = 0
        counters = {}
        for process, parent_pid in descendants:
            with suppress(*GONE):  # it has just ended
                counters[process] = self._counters(process, parent_pid)
        return counters

    def _lists_are_cheaper(self, root: psutil.Process) -> bool:
        # A list is a file for each thread of the tree, a scan one for each process of the machine.
        if not exists(f"{self._proc}/{root.pid}/task/{root.pid}/children"):
            return False
        if self._threads <= FEW_THREADS:
            return True
        return self._threads <= CHILD_LISTS_PER_SCANNED_PROCESS * len(psutil.pids())

    def _listed(self, root: psutil.Process) -> Iterator[tuple[psutil.Process, int]]:
        """Yield each descendant and its parent, from each thread's list of forked children."""
        # Making a Process costs as much as reading it, so this reading uses the objects of the last one. If
        # another process has the same number by now, its parent's reaped time keeps the sum right. If the new
        # process's counters are lower, this one sample has no CPU figure.
        seen, waiting = {root.pid}, [root.pid]
        while waiting:
            parent = waiting.pop()
            for thread in self._tasks(parent):
                children: list[int] = []
                with suppress(OSError, ValueError):  # it has just ended; another one has its children now
                    children = [*map(int, read(f"{self._proc}/{parent}/task/{thread}/children").split())]
                for child in children:
                    with suppress(*GONE):
                        if child not in seen:
                            seen.add(child)
                            yield self._members.get(child) or psutil.Process(child), parent
                            waiting.append(child)

    def _scanned(self, root: psutil.Process) -> Iterator[tuple[psutil.Process, int]]:
        """Yield each descendant and its parent, from every process of the machine."""
        with suppress(*GONE):
            self._tasks(root.pid)
            for process in root.children(recursive=True):
                self._tasks(process.pid)
                with suppress(*GONE):
                    yield process, process.ppid()

    def _tasks(self, pid: int) -> list[str]:
        tasks = names(f"{self._proc}/{pid}/task")
        self._threads += len(tasks)
        return tasks

    def _counters(self, process: psutil.Process, parent_pid: int) -> ProcessCounters:
        io_calls = None
        if self._count_io:
            try:
                counted = process.io_counters()
                io_calls = counted.read_count + counted.write_count
            except psutil.NoSuchProcess:
                pass
            except Exception as error:
                self._io_fault = error
        times = process.cpu_times()
        return ProcessCounters(
            parent_pid=parent_pid,
            started_s=self._since_boot_s(process),
            cpu_s=self._cpu_s(process.pid, times.user + times.system),
            reaped_cpu_s=times.children_user + times.children_system,
            rss_bytes=_resident_bytes(process),
            io_calls=io_calls,
        )

    def _since_boot_s(self, process: psutil.Process) -> float:
        # psutil adds the time of the boot, which moves with the wall clock: ask for each process once.
        started_s = self._started_s.get(process)
        return process.create_time() - psutil.boot_time() if started_s is None else started_s

    def _cpu_s(self, pid: int, otherwise_s: float) -> float:
        # In ns and for every user's processes; procfs counts 10 ms, a 15th of what 0.15 cores do in 1 s.
        try:
            return self._cpu_clock(pid)
        except OSError:  # it has just ended
            return otherwise_s

    def _no_io_fault(self) -> None:
        # Logged once for the whole tree: otherwise a partly readable tree would log each process.
        fault, self._io_fault = self._io_fault, None
        if fault is not None:
            raise fault


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except GONE:  # just now: its CPU time was read, and must not be lost
        return 0
