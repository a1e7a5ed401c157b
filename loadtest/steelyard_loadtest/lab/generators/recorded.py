"""Loads whose own process writes down every request: locust's and the open loop's."""

import sys
from pathlib import Path

from steelyard_loadtest.lab.generators.child import Child
from steelyard_loadtest.lab.generators.job import FINISH_S, TIMEOUT_S, Job
from steelyard_loadtest.lab.generators.recording import Recording
from steelyard_loadtest.lab.generators.tally import tally
from steelyard_loadtest.lab.generators.task import Task
from steelyard_loadtest.lab.records import Outcome
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

HERE = Path(__file__).parent


class Recorded:
    """A load of one process that tells when its counted part begins, and ends by itself."""

    def __init__(self, job: Job, program: Path, finish_s: float = FINISH_S) -> None:
        self._job = job
        self._recording = Recording(job.folder)
        self._recording.clear()
        self._began_s: float | None = None
        task = Task(
            url=job.url,
            level=job.level,
            seconds=job.seconds,
            warm_up_s=job.warm_up_s,
            timeout_s=TIMEOUT_S,
            finish_s=finish_s,
            folder=job.folder,
        )
        self._child = Child(
            f"the generator {job.generator}",
            # By its path: the package around it would be imported before locust replaces the sockets.
            # -P: what lies beside it is not to be taken for other modules.
            [sys.executable, "-P", str(program), *task.arguments()],
            output=job.folder / f"{job.generator}.out",
            errors=job.folder / f"{job.generator}.log",
        )

    @property
    def began_s(self) -> float | None:
        """Return when the counted part began; None before."""
        if self._began_s is None:
            self._began_s = self._recording.began_s()
        return self._began_s

    def poll(self) -> bool:
        """Say whether all requests are answered or given up."""
        return self._child.ended()

    def stop(self) -> None:
        """End it at once."""
        self._child.stop()

    def outcome(self) -> Outcome:
        """Count its requests. Raises ProgramError."""
        self._child.check()
        began_s = self.began_s
        if began_s is None:
            raise ProgramError(f"{self._child.name} never began: {self._child.last_words()}")
        try:
            requests, cpu_s = self._recording.read()
        except UnreadableError as error:
            raise ProgramError(f"{self._child.name}: {error}") from None
        return tally(requests, began_s=began_s, seconds=self._job.seconds, cpu_s=cpu_s)


def locust(job: Job) -> Recorded:
    """Start locust with `level` users."""
    return Recorded(job, HERE / "locust_users.py")


def open_loop(job: Job) -> Recorded:
    """Start `level` requests per second, whatever becomes of them."""
    return Recorded(job, HERE / "open_loop.py")
