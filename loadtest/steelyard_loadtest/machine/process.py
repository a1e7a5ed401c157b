"""A process under measurement, or one that the measurement needs: start, watch its CPU and memory, stop."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.procfs import parse_reaped_ticks, parse_resident, parse_schedstats

START_S = 30.0
"""A proxy with 2000 servers is there within a second; Envoy on a loaded machine takes several."""

STOP_S = 5.0

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process:
    """A daemon that stays in the foreground and writes to `log`.

    name: what messages call it (the program's). within: a command that runs the rest of its
    arguments elsewhere, such as in another network. environment: instead of this program's.
    orphan_signal: what the kernel sends it when this program has been killed; KILL also ends what
    was stopped (SIGSTOP), and leaves its children.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        cpus: Collection[int] | None = None,
        *,
        name: str | None = None,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        orphan_signal: str = "TERM",
    ) -> None:
        self.name = name or Path(command[0]).name
        self._log = log
        wrapped = ["setpriv", "--pdeathsig", orphan_signal, "--", *within]
        if cpus:
            wrapped += ["taskset", "--cpu-list", ",".join(map(str, sorted(cpus)))]
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [*wrapped, *command],
                stdin=subprocess.DEVNULL,
                stdout=stream,
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
        """Return the id of the process group that it and its children are in, while one of them is left."""
        return self._process.pid

    def wait_listening(self, port: int, address: str = "127.0.0.1") -> None:
        """Wait until it takes connections. Raises ProgramError."""
        deadline = time.monotonic() + START_S
        while True:
            self.check()
            with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
                return
            if time.monotonic() > deadline:
                raise ProgramError(f"{self.name} does not listen after {START_S:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def check(self) -> None:
        """Raise ProgramError when it has ended by itself."""
        if self._process.poll() is not None:
            raise ProgramError(f"{self.name} ended: {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what it logged, in one line."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()[-3:]
            if lines:
                return " / ".join(line.strip()[:300] for line in lines)
        return "it logged nothing"

    def workers(self) -> list[int]:
        """Return the processes that serve: its children; itself when it has none."""
        pid = self._process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:
            raise ProgramError(f"{self.name} ended: {self.last_words()}") from None
        return [int(child) for child in children.split()] or [pid]

    def cpu_s(self) -> float:
        """Return the user and system time of all threads that serve, and of workers that have ended.

        Of those that have ended the kernel keeps it to a hundredth of a second.
        """
        try:
            while True:
                reaped = self._reaped_ticks()
                serving_s = sum(_cpu_s(pid) for pid in self.workers())
                # A worker that ended meanwhile would be counted twice, or not at all.
                if self._reaped_ticks() == reaped:
                    return serving_s + reaped / TICKS_PER_S
        except OSError as error:
            raise ProgramError(f"{self.name}: its CPU time is not to be read: {error}") from None

    def reload(self) -> None:
        """Tell it to read its configuration again (SIGHUP)."""
        self._process.send_signal(signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Return the resident memory of the processes that serve."""
        try:
            return sum(parse_resident(Path(f"/proc/{pid}/status").read_text()) for pid in self.workers())
        except OSError as error:
            raise ProgramError(f"{self.name}: its memory is not to be read: {error}") from None

    def stop(self) -> None:
        """End it and its children; kill what does not go. Harmless when it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _reaped_ticks(self) -> int:
        return parse_reaped_ticks(Path(f"/proc/{self._process.pid}/stat").read_text())


def _cpu_s(pid: int) -> float:
    texts = []
    with contextlib.suppress(
        FileNotFoundError, ProcessLookupError
    ):  # a worker or a thread that has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                texts.append((task / "schedstat").read_text())
    return parse_schedstats(texts)
