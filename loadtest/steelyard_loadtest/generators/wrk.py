"""wrk: connections from one thread, each always with one request; and its output, by a script.

Connections are kept, or each request is on one of its own. In that case a server is asked to close and says
so in its answer, and wrk connects again.

Some things are wrk's own (its source, wrk.c and stats.c, 4.1). Its latencies are those of all answers
including failures, and do not include connecting. Requests under way at the end are counted nowhere. So its
timeouts are late answers only, and a request that hangs until the end is no error. It adds
entries for requests that a slow answer kept from being sent. Latencies of more than twice the average
interval count again, shorter by one interval each time. vproxy's figures were made in the same way.
"""

import math
import re
import time
from pathlib import Path

from steelyard_loadtest.generators.job import Job
from steelyard_loadtest.generators.tally import FAILED_FROM, REFUSED, RESET, TIMEOUT
from steelyard_loadtest.machine.child_process import Child
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.measurements.trials import PERCENTILES, Outcome, Quantile
from steelyard_loadtest.templates import render_file

GRACE_S = 60
"""Time by which the first run may exceed its own; it is killed after that."""

END_S = 15.0
"""It counts through every microsecond up to the longest latency, once for each quantile."""

TEMPLATE = Path(__file__).with_name("templates") / "wrk.lua"

STATUS = f"status {FAILED_FROM} and above"
"""wrk counts failed answers without their status; a script that looked at each would cost as much as wrk."""

_FIGURES = re.compile(
    r"^figures requests=(\d+) duration_us=(\d+) status=(\d+) timeout=(\d+) connect=(\d+) broken=(\d+)$",
    re.MULTILINE,
)
_LATENCY = re.compile(r"^latency mean_us=([\d.]+) min_us=(\d+) max_us=(\d+)$", re.MULTILINE)
_QUANTILE = re.compile(r"^quantile ([\d.]+) (\d+)$", re.MULTILINE)


class Wrk:
    """A load by wrk with `level` connections at a time. wrk has no warm-up, so it runs twice.

    The first run is short and its figures are dropped; the second one counts. `poll` must be called a few
    times a second, because it advances the load. end_s: time by which it may exceed its own.
    """

    def __init__(self, job: Job, *, end_s: float = END_S) -> None:
        self._job, self._end_s = job, end_s
        self._connections = round(job.level)
        self._script = job.folder / "figures.lua"
        self._script.write_text(script())
        self.began_s: float | None = None
        """When the counted run began; None before."""
        if job.warm_up_s > 0:
            self._child = self._run(job.warm_up_s + GRACE_S)
        else:
            self._count()

    def poll(self) -> bool:
        """Return whether the second run has ended; begin it when it is time. Raises ProgramError."""
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
        """Read the figures of the counted run. Raises ProgramError."""
        self._child.check()
        try:
            output = self._child.output.read_text(errors="replace")
            return parse_wrk(output, connections=self._connections, cpu_s=self._child.used_cpu_s)
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


def script() -> str:
    """Return the script."""
    return render_file(TEMPLATE, {"parts": PERCENTILES.values()})


def parse_wrk(output: str, *, connections: int, cpu_s: float) -> Outcome:
    """Return the outcome from the output of wrk with the script; cpu_s: its CPU time. Raises UnreadableError.

    Requests are those that were answered in time, and broken connections. Concurrency is by Little's law, and
    at most the number of connections.
    """
    figures = _FIGURES.search(output)
    if figures is None:
        raise UnreadableError(f"its output has no figures: {output[-300:].strip() or '(empty)'}")
    answered, duration_us, status, timeout, connect, broken = map(int, figures.groups())
    if not duration_us:
        raise UnreadableError("it measured no time")
    counts = {STATUS: status, TIMEOUT: timeout, REFUSED: connect, RESET: broken}
    seconds = duration_us / 1e6
    mean_ms = min_ms = max_ms = None
    if latency := _LATENCY.search(output):
        mean_ms, min_ms, max_ms = (float(us) / 1000 for us in latency.groups())
    return Outcome(
        seconds=seconds,
        requests=answered + connect + broken,
        failures=sum(counts.values()),
        kinds={kind: count for kind, count in sorted(counts.items()) if count},
        mean_ms=mean_ms,
        min_ms=min_ms,
        max_ms=max_ms,
        quantiles=tuple(
            Quantile(part=float(part), ms=int(us) / 1000) for part, us in _QUANTILE.findall(output)
        ),
        concurrency=min((mean_ms or 0.0) / 1000 * answered / seconds, float(connections)),
        generator_cpu_utilization=cpu_s / seconds,
    )
