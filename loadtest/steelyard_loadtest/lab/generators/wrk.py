"""wrk: kept connections, each always with one request, from one thread. See wrk_output for its figures."""

import math

from steelyard_loadtest.lab.generators.child import Child
from steelyard_loadtest.lab.generators.job import TIMEOUT_S, Job
from steelyard_loadtest.lab.generators.two_runs import TwoRuns
from steelyard_loadtest.lab.generators.wrk_output import SCRIPT, parse_wrk
from steelyard_loadtest.lab.records import Outcome

END_S = 15.0
"""It counts through every microsecond up to the longest latency, once for each quantile."""


def start(job: Job) -> TwoRuns[Child]:
    """Start wrk with `level` connections."""
    connections = round(job.level)
    script = job.folder / "figures.lua"
    script.write_text(SCRIPT)

    def run(seconds: float) -> Child:
        flags = [
            f"--connections={connections}",
            f"--duration={math.ceil(seconds)}s",
            f"--timeout={TIMEOUT_S:.0f}s",
        ]
        return Child(
            "wrk",
            [job.found.wrk or "wrk", "--threads=1", *flags, f"--script={script}", job.url],
            output=job.folder / "wrk.out",
            errors=job.folder / "wrk.err",
        )

    def read(child: Child) -> Outcome:
        return parse_wrk(child.output.read_text(errors="replace"), connections=connections, cpu_s=child.cpu_s)

    return TwoRuns(job, run=run, read=read, end_s=END_S)
