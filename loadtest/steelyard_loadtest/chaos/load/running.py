"""The load as the run sees it: started, read while it goes on, stopped (I/O)."""

import sys
import time
from pathlib import Path

from steelyard_loadtest.lab.generators.child import Child
from steelyard_loadtest.lab.generators.pacer import Pacer
from steelyard_loadtest.lab.generators.recording import REQUESTS, Recording
from steelyard_loadtest.lab.generators.tally import Request, read_requests
from steelyard_loadtest.lab.generators.task import Task
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

PROGRAM = Path(__file__).with_name("generator.py")

TIMEOUT_S = 10.0
"""So long a request may take: a person has left by then."""

MOST_S = 7200.0
"""Every load has an end; a whole run takes a quarter of this."""

START_S = 20.0
"""A Python with all that it imports is there within a second; on a loaded machine in several."""


class Load:
    """`rate_per_s` requests a second to a URL, from now on until `stop`. Raises ProgramError."""

    def __init__(self, url: str, rate_per_s: float, folder: Path) -> None:
        self.requests: list[Request] = []
        """Those that have ended, in the order of their ends, as far as `read` has come."""
        self._pacer = Pacer(rate_per_s=rate_per_s, seconds=MOST_S)
        self._file, self._offset = folder / REQUESTS, 0
        recording = Recording(folder)
        recording.clear()
        task = Task(
            url=url,
            level=rate_per_s,
            seconds=MOST_S,
            warm_up_s=0.0,
            timeout_s=TIMEOUT_S,
            finish_s=0.0,
            folder=folder,
        )
        self._child = Child(
            "the load",
            [sys.executable, "-P", str(PROGRAM), *task.arguments()],
            output=folder / "load.out",
            errors=folder / "load.log",
        )
        self.began_s = self._wait(recording)

    def read(self) -> None:
        """Take what has ended since the last call. Raises ProgramError when the load itself has ended."""
        if self._child.ended():
            raise ProgramError(f"the load ended: {self._child.last_words()}")
        self._take()

    def complete(self, until_s: float) -> bool:
        """Say whether all that were due before a moment have ended, as far as was read."""
        due = self._pacer.due_by(until_s - self.began_s)
        while due and self.began_s + self._pacer.due_s(due - 1) >= until_s:
            due -= 1
        return sum(one.due_s < until_s for one in self.requests) >= due

    def stop(self) -> None:
        """End it at once; what had ended by then is read."""
        self._child.stop()
        self._take()

    def _take(self) -> None:
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._offset)
                whole, _, _ = stream.read().rpartition(b"\n")
        except FileNotFoundError:
            return
        if whole:
            self._offset += len(whole) + 1
            try:
                self.requests += read_requests(whole.decode().split("\n"))
            except UnreadableError as error:
                raise ProgramError(f"the load's record: {error}") from None

    def _wait(self, recording: Recording) -> float:
        deadline_s = time.monotonic() + START_S
        while (began_s := recording.began_s()) is None:
            if self._child.ended() or time.monotonic() > deadline_s:
                said = self._child.last_words()
                self.stop()
                raise ProgramError(f"the load did not begin: {said}")
            time.sleep(0.01)
        return began_s
