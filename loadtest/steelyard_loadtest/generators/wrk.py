"""wrk: connections, each always with one request, from one thread. See wrk_output for its figures.

They are kept, or each request is on one of its own: who is asked to close says so in its
answer, and wrk then connects anew.
"""

import math
import time

from steelyard_loadtest.generators.job import Job
from steelyard_loadtest.generators.wrk_output import parse_wrk, script
from steelyard_loadtest.machine.child_process import Child
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.measurements.trials import Outcome

MORE_S = 60
"""The run before is asked for so much more than its time, and is killed when that is over."""

END_S = 15.0
"""It counts through every microsecond up to the longest latency, once for each quantile."""


class Wrk:
    """A load by wrk with `level` connections at a time. It knows no warm-up, so it is run twice.

    The first run is short and nobody reads it; the second one counts. `poll` has to be called a few times a
    second: it moves the load on. end_s: so much longer than its time it may take.
    """

    def __init__(self, job: Job, *, end_s: float = END_S) -> None:
        self._job, self._end_s = job, end_s
        self._connections = round(job.level)
        self._script = job.folder / "figures.lua"
        self._script.write_text(script(job.think_ms))
        self.began_s: float | None = None
        """When the run that counts began; None before."""
        if job.warm_up_s > 0:
            self._child = self._run(job.warm_up_s + MORE_S)
        else:
            self._count()

    def poll(self) -> bool:
        """Say whether the second run has ended; begin it when it is time. Raises ProgramError."""
        over = self._child.ended()
        running_s = time.monotonic() - self._child.began_s
        if self.began_s is None:
            self._child.check()
            if running_s >= self._job.warm_up_s:
                self.stop()
                self._count()
            return False
        if not over and running_s > math.ceil(self._job.seconds) + self._end_s:
            self.stop()
            raise ProgramError(f"wrk did not end {self._end_s:.0f} s after its time")
        return over

    def stop(self) -> None:
        """End it at once."""
        self._child.stop()

    def outcome(self) -> Outcome:
        """Read the figures of the run that counts. Raises ProgramError."""
        self._child.check()
        try:
            said = self._child.output.read_text(errors="replace")
            return parse_wrk(said, connections=self._connections, cpu_s=self._child.used_cpu_s)
        except (OSError, UnreadableError) as error:
            raise ProgramError(f"wrk: {error}") from None

    def _count(self) -> None:
        self._child = self._run(self._job.seconds)
        self.began_s = self._child.began_s

    def _run(self, seconds: float) -> Child:
        job = self._job
        flags = [
            f"--connections={self._connections}",
            f"--duration={math.ceil(seconds)}s",
            f"--timeout={job.timeout_s:.0f}s",
        ]
        if job.own_connections:
            flags.append("--header=Connection: close")
        command = [job.programs.wrk or "wrk", "--threads=1", *flags, f"--script={self._script}", job.url]
        return Child("wrk", command, output=job.folder / "wrk.out", errors=job.folder / "wrk.err")
