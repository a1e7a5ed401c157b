"""A load as a process of ours that records its requests itself: locust's users, the open loop (I/O)."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.generators.job import Task
from steelyard_loadtest.generators.recording import Recording
from steelyard_loadtest.generators.tally import Request, tally
from steelyard_loadtest.machine.child_process import Child
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.measurements.trials import Outcome


class Recorded:
    """A load of one process that announces the beginning of its counted part, and ends by itself.

    name: in messages. cuts_s: moments at which its outcome is cut into phases.
    """

    def __init__(self, task: Task, program: Path, name: str, cuts_s: Sequence[float] = ()) -> None:
        self._task, self._cuts_s = task, cuts_s
        task.folder.mkdir(parents=True, exist_ok=True)
        self._recording = Recording(task.folder)
        self._recording.clear()
        self._began_s: float | None = None
        self.child = Child(
            name,
            # By its path, because locust must replace the sockets before the package around it is imported.
            # -P: files in its folder are not to be taken for other modules.
            [sys.executable, "-P", str(program), *task.arguments()],
            output=task.folder / f"{program.stem}.out",
            errors=task.folder / f"{program.stem}.log",
        )

    @property
    def began_s(self) -> float | None:
        """Return when the counted part began, on time.monotonic's clock; None before."""
        if self._began_s is None:
            self._began_s = self._recording.began_s()
        return self._began_s

    def wait(self, patience_s: float) -> float:
        """Wait until the counted part begins; return when it did. Raises ProgramError, after stopping it."""
        deadline_s = time.monotonic() + patience_s
        while (began_s := self.began_s) is None:
            if self.poll() or time.monotonic() > deadline_s:
                last_words = self.child.last_words()
                self.stop()
                raise ProgramError(f"{self.child.name} did not begin: {last_words}")
            time.sleep(0.01)
        return began_s

    def poll(self) -> bool:
        """Return whether all requests are answered or given up."""
        return self.child.ended()

    def stop(self) -> None:
        """End it without an outcome. Harmless if it has ended."""
        self.child.stop()

    def requests(self) -> list[Request]:
        """Return the requests that ended since the last call, as far as written. Raises ProgramError."""
        try:
            return self._recording.read()
        except UnreadableError as error:
            raise ProgramError(f"{self.child.name}: {error}") from None

    def outcome(self) -> Outcome:
        """Count its requests. Raises ProgramError."""
        self.child.check()
        began_s = self.began_s
        if began_s is None:
            raise ProgramError(f"{self.child.name} never began: {self.child.last_words()}")
        requests, cpu_s = self.requests(), self._recording.cpu_s()
        if cpu_s is None:
            raise ProgramError(f"{self.child.name} left no record of its requests")
        return tally(requests, began_s=began_s, seconds=self._task.seconds, cpu_s=cpu_s, cuts_s=self._cuts_s)
