"""One daemon of a stage: start it again, stop it, kill it, pause it (I/O)."""

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.child_process import Process, children_of, inherited_environment, wait_until
from steelyard_loadtest.machine.errors import ProgramError

GONE_S = 5.0
"""The kernel ends a killed process at once; on a busy machine it takes a moment."""

ORDERLY_S = 15.0
"""Time limit of a graceful stop: nginx's workers finish requests, which may wait for a server that hangs."""


class Daemon:
    """One daemon on its host; a dead one stays dead until `start`."""

    def __init__(self, part: Part, address: str, within: Sequence[str], log: Path) -> None:
        self.name, self.host, self.log = part.name, part.host, log
        self._part, self._address, self._within = part, address, within
        self._process: Process | None = None
        self._gone = True
        # Whether its whole process group has ended; the kernel may reuse the number after that.

    @property
    def pid(self) -> int | None:
        """Return its process id; None if it does not run."""
        return self._process.pid if self._process else None

    def launch(self, extra: Sequence[str] = ()) -> None:
        """Run its command, with extra arguments, and do not wait. Raises ProgramError if it runs already."""
        if self.pid is not None:
            raise ProgramError(f"{self.name} runs already")
        self._process = Process(
            [*self._part.command, *extra],
            self.log,
            name=self.name,
            within=self._within,
            environment=inherited_environment() | dict(self._part.environment),
            orphan_signal=self._part.orphan_signal,
        )
        self._gone = False

    def wait_listening(self) -> None:
        """Wait until its port, if it has one, accepts connections. Raises ProgramError."""
        if self._process and self._part.port is not None:
            self._process.wait_listening(self._part.port, self._address)
        elif self._process:
            self._process.check()

    def start(self, *extra: str) -> None:
        """Run its command, with extra arguments, and wait until its port answers. Raises ProgramError."""
        self.launch(extra)
        self.wait_listening()

    def signal(self, number: int) -> None:
        """Send a signal to it, but not to its children. Raises ProgramError if it does not run."""
        os.kill(self._running(), number)

    def kill(self) -> None:
        """Send SIGKILL to it and its children, and wait for their end. Harmless if it does not run."""
        self._signal_all(signal.SIGKILL)
        problem = f"{self.name} still runs after SIGKILL"
        wait_until(lambda: problem if self.pid is not None or self._living() else None, within_s=GONE_S)
        self._gone = True

    def pause(self) -> None:
        """Stop it and its children (SIGSTOP). Raises ProgramError if it does not run."""
        self._running()
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it and its children (SIGCONT). Harmless if they run."""
        self._signal_all(signal.SIGCONT)

    def stop(self) -> None:
        """Stop it gracefully, by its own stop signal; kill it if it stays. Harmless if it has ended."""
        if self.pid is not None:
            self.resume()
            with contextlib.suppress(ProgramError, ProcessLookupError):
                self.signal(getattr(signal, f"SIG{self._part.stop_signal}"))
                wait_until(lambda: None if self.pid is None else "it takes its time", within_s=ORDERLY_S)
        self.kill()

    def restart(self, *extra: str) -> None:
        """Stop it gracefully and start it again, with extra arguments. Raises ProgramError."""
        self.stop()
        self.start(*extra)

    def children(self) -> tuple[int, ...]:
        """Return the process ids of its children, such as nginx's workers; empty if it does not run."""
        pid = self.pid
        return () if pid is None else tuple(children_of(pid))

    def why_not_running(self) -> str | None:
        """Return the problem of its processes: the daemon ended, or one is stopped; None if all run."""
        pid = self.pid
        if pid is None:
            return f"{self.name} does not run"
        for process in (pid, *self.children()):
            with contextlib.suppress(psutil.Error):
                if psutil.Process(process).status() == psutil.STATUS_STOPPED:
                    return f"{self.name} is stopped (process {process})"
        return None

    def last_words(self) -> str:
        """Return the end of its log, in one line."""
        return self._process.last_words() if self._process else "it was not started"

    def _running(self) -> int:
        pid = self.pid
        if pid is None:
            raise ProgramError(f"{self.name} does not run: {self.last_words()}")
        return pid

    def _signal_all(self, number: int) -> None:
        # Its children are in its process group.
        if self._process is None or self._gone:
            return
        try:
            os.killpg(self._process.group, number)
        except ProcessLookupError:
            self._gone = True

    def _living(self) -> bool:
        """Return whether any process of its group is alive; dead ones stay there until init reaps them."""
        if self._process is None or self._gone:
            return False
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                alive = process.status() != psutil.STATUS_ZOMBIE
                if alive and os.getpgid(process.pid) == self._process.group:
                    return True
        return False
