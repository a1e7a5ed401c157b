"""A generator's process: started alone in its session, its CPU time known when it has ended."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError

LAST_LINES = 3


class Child:
    """A program that ends by itself; it writes to the files `output` and `errors`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        output: Path,
        errors: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.output, self.errors = name, output, errors
        self.cpu_s = 0.0
        with output.open("wb") as out, errors.open("wb") as err:
            self._process = subprocess.Popen(
                # If this program is killed, the kernel ends what it had started.
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=None if environment is None else {**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for this program, which then stops it
            )
        self.began_s = time.monotonic()

    def ended(self) -> bool:
        """Say whether it has ended; from then on cpu_s is its user and system time."""
        if self._process.returncode is None:
            pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                self._ended(status, usage.ru_utime + usage.ru_stime)
        return self._process.returncode is not None

    def check(self) -> None:
        """Raise ProgramError when it has ended otherwise than well."""
        if self._process.returncode:
            raise ProgramError(f"{self.name} ended with {self._process.returncode}: {self.last_words()}")

    def last_words(self) -> str:
        """Return the end of what it said, in one line."""
        with contextlib.suppress(OSError):
            lines = self.errors.read_text(errors="replace").strip().splitlines()[-LAST_LINES:]
            if lines:
                return " / ".join(line.strip()[:300] for line in lines)
        return "it said nothing"

    def stop(self) -> None:
        """Kill it and its children, which have nothing to tidy up. Harmless when it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self._process.pid, 0)
            self._ended(status, usage.ru_utime + usage.ru_stime)

    def _ended(self, status: int, cpu_s: float) -> None:
        # Popen must know, or it would wait for a process that is no longer there.
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s = cpu_s
