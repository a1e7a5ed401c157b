"""wrk: connections, each always with one request, from one thread. See wrk_output for its figures.

They are kept, or each request is on one of its own: who is asked to close says so in its
answer, and wrk then connects anew.
"""

import math

from steelyard_loadtest.generators.job import Job
from steelyard_loadtest.generators.load import TwoRuns
from steelyard_loadtest.generators.wrk_output import parse_wrk, script
from steelyard_loadtest.machine.child_process import Child
from steelyard_loadtest.measurements.trials import Outcome

END_S = 15.0
"""It counts through every microsecond up to the longest latency, once for each quantile."""


def start(job: Job) -> TwoRuns:
    """Start wrk with `level` connections at a time."""
    connections = round(job.level)
    file = job.folder / "figures.lua"
    file.write_text(script(job.think_ms))

    def run(seconds: float) -> Child:
        flags = [
            f"--connections={connections}",
            f"--duration={math.ceil(seconds)}s",
            f"--timeout={job.timeout_s:.0f}s",
        ]
        if job.own_connections:
            flags.append("--header=Connection: close")
        command = [job.programs.wrk or "wrk", "--threads=1", *flags, f"--script={file}", job.url]
        return Child("wrk", command, output=job.folder / "wrk.out", errors=job.folder / "wrk.err")

    def read(child: Child) -> Outcome:
        said = child.output.read_text(errors="replace")
        return parse_wrk(said, connections=connections, cpu_s=child.used_cpu_s)

    return TwoRuns(job, run=run, read=read, end_s=END_S)
