"""A process for a measurement: start, watch its CPU and memory, stop."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from steelyard_loadtest.machine.errors import ProgramError

START_S = 30.0
"""A proxy with 2000 servers starts within a second; Envoy on a loaded machine takes several."""

STOP_S = 5.0

PAUSE_S = 0.05

LAST_LINES = 3

CPUCLOCK_SCHED = 2
"""linux/posix-timers.h: the clock of a process's run time, in ns, not in ticks."""


class Process:
    """A daemon in the foreground that logs to `log` and prints to `output`, if given.

    name           in messages (default: the program's)
    within         a command that runs the rest of its arguments elsewhere, such as in another network
    environment    replaces this program's
    orphan_signal  the kernel sends it when this program has been killed; KILL also ends a stopped process
                   (SIGSTOP), but leaves its children
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        cpus: Collection[int] | None = None,
        *,
        name: str | None = None,
        output: Path | None = None,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        orphan_signal: str = "TERM",
    ) -> None:
        self.name = name or Path(command[0]).name
        self._log = log
        wrapped = ["setpriv", "--pdeathsig", orphan_signal, "--", *within]
        if cpus:
            wrapped += ["taskset", "--cpu-list", ",".join(map(str, sorted(cpus)))]
        with log.open("ab") as stream, (output or log).open("ab") as printed:
            self._process = subprocess.Popen(
                [*wrapped, *command],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=stream,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this program, which then stops them in order
            )

    @property
    def pid(self) -> int | None:
        """Return its process id; None once it has ended."""
        return self._process.pid if self._process.poll() is None else None

    @property
    def group(self) -> int:
        """Return the id of the process group of it and its children, while one of them is left."""
        return self._process.pid

    def wait_listening(self, port: int, address: str = "127.0.0.1") -> None:
        """Wait until it takes connections. Raises ProgramError."""

        def deaf() -> str | None:
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
                return None
            return f"{self.name} does not listen ({self.last_words()})"

        wait_until(deaf, [self])

    def check(self) -> None:
        """Raise ProgramError if it has ended by itself."""
        if self._process.poll() is not None:
            raise ProgramError(f"{self.name} ended: {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of its log, in one line."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
            if lines:
                return " / ".join(line.strip()[:300] for line in lines)
        return "it logged nothing"

    def workers(self) -> list[int]:
        """Return the processes that serve: its children, or itself without any."""
        pid = self._process.pid
        if cpu_seconds(pid) is None:
            raise ProgramError(f"{self.name} ended: {self.last_words()}")
        return children_of(pid) or [pid]

    def cpu_s(self) -> float:
        """Return the user and system time of all serving threads, and of ended workers.

        The kernel rounds an ended worker's time to a hundredth of a second.
        """
        try:
            while True:
                reaped_s = self._reaped_s()
                serving_s = sum(cpu_seconds(pid) or 0.0 for pid in self.workers())
                # A worker that ended meanwhile would be counted twice, or not at all.
                if self._reaped_s() == reaped_s:
                    return serving_s + reaped_s
        except (OSError, psutil.Error) as error:
            raise ProgramError(f"{self.name}: its CPU time is not readable: {error}") from None

    def reload(self) -> None:
        """Make it read its configuration again (SIGHUP)."""
        self._process.send_signal(signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Return the resident memory of the processes that serve."""
        try:
            return resident_bytes(self.workers())
        except psutil.Error as error:
            raise ProgramError(f"{self.name}: its memory is not readable: {error}") from None

    def stop(self) -> None:
        """End it and its children; kill them after a time-out, or at Ctrl-C. Harmless if it has ended."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if isinstance(ended, KeyboardInterrupt):
                raise  # otherwise an interrupted run would begin its next trial

    def _reaped_s(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.children_user + times.children_system)


class Child(Process):
    """A program that ends by itself; it overwrites the files `output` and `errors`."""

    def __init__(self, name: str, command: Sequence[str], *, output: Path, errors: Path) -> None:
        for file in (output, errors):
            file.unlink(missing_ok=True)
        super().__init__(command, errors, name=name, output=output, orphan_signal="KILL")
        self.output, self.errors = output, errors
        self.began_s = time.monotonic()
        self.used_cpu_s = 0.0
        """Its user and system time, after its end."""

    def ended(self) -> bool:
        """Return whether it has ended."""
        return self._reap(os.WNOHANG)

    def check(self) -> None:
        """Raise ProgramError if it has ended with a failure."""
        if self._process.returncode:
            raise ProgramError(f"{self.name} ended with {self._process.returncode}: {self.last_words()}")

    def stop(self) -> None:
        """Kill it and its children. Harmless if it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._reap(0)

    def _reap(self, options: int) -> bool:
        if self._process.returncode is None:
            pid, status, usage = os.wait4(self._process.pid, options)
            if pid:
                # Popen must know, or it would wait for a process that no longer exists.
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.used_cpu_s = usage.ru_utime + usage.ru_stime
        return self._process.returncode is not None


def wait_until(
    reached: Callable[[], str | None], processes: Collection[Process] = (), *, within_s: float = START_S
) -> None:
    """Ask until there is no reason left to wait. Raises ProgramError: one ended, or with the last reason."""
    deadline = time.monotonic() + within_s
    while True:
        for process in processes:
            process.check()
        why = reached()
        if why is None:
            return
        if time.monotonic() > deadline:
            raise ProgramError(f"{why}, after {within_s:.0f} s")
        time.sleep(PAUSE_S)


def inherited_environment() -> dict[str, str]:
    """Return this program's environment without the configuration of another cluster's daemons."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of all threads of a process; None if it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
    except OSError:
        return None


def children_of(pid: int) -> list[int]:
    """List the processes that the main thread of a process started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of processes. Raises psutil.Error when one has ended."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids)
