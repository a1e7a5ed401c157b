"""siege: a closed loop of users in threads of C, as the paper used it.

In benchmark mode a user sends the next request at once, each over a connection of
its own (`connection = close`, siege's default). See siege_output for what its
figures are.

At its end siege 4.0.7 (Debian 12) cancels its threads wherever they are, and where one
had a lock it hangs for ever (its pull request 180 tells why; with many users that is
often). It is killed then, and its lines, each written at once, are counted instead of
the figures that it did not come to tell.
"""

import math
import time
from collections.abc import Iterator
from pathlib import Path

from steelyard_loadtest.lab.generators.child import Child
from steelyard_loadtest.lab.generators.job import TIMEOUT_S, Job
from steelyard_loadtest.lab.generators.siege_output import parse_siege
from steelyard_loadtest.lab.generators.two_runs import TwoRuns
from steelyard_loadtest.lab.records import Outcome

LEAST_LIMIT = 2048
"""siege takes no more users than its `limit`, 255 by default; the paper had 2000."""

END_S = 2.0
"""siege takes a few tenths of a second to end; when it hangs nothing is lost by killing it."""

NEVER = 1_000_000_000
"""siege gives up after 1024 failures by default: a level at which servers fail would have no figures."""

CONFIGURATION = """\
verbose = true
color = off
quiet = false
json_output = false
logging = false
show-logfile = false
protocol = HTTP/1.1
connection = close
parser = false
cache = false
follow-location = false
zero-data-ok = true
timeout = {timeout}
failures = {failures}
limit = {limit}
"""


def start(job: Job) -> TwoRuns:
    """Start siege with `level` users."""
    users = round(job.level)
    home = job.folder / "siege-home"  # it writes cookies and a template there
    home.mkdir(exist_ok=True)
    configuration = job.folder / "siegerc"
    configuration.write_text(
        CONFIGURATION.format(timeout=round(TIMEOUT_S), failures=NEVER, limit=max(LEAST_LIMIT, users))
    )

    length_s = 0.0

    def run(seconds: float) -> Child:
        nonlocal length_s
        now_s = time.time()
        # It ends on a whole second of the clock.
        length_s = math.floor(now_s) + math.ceil(seconds) - now_s
        flags = ["--benchmark", f"--concurrent={users}", f"--time={math.ceil(seconds)}S"]
        return Child(
            "siege",
            ["stdbuf", "-oL", job.found.siege or "siege", f"--rc={configuration}", *flags, job.url],
            output=job.folder / "siege.out",
            errors=job.folder / "siege.err",
            environment={"HOME": str(home), "SIEGERC": str(configuration)},
        )

    def read(child: Child) -> Outcome:
        said = child.errors.read_text(errors="replace")
        return parse_siege(_lines(child.output), said, length_s=length_s, cpu_s=child.cpu_s)

    return TwoRuns(job, run=run, read=read, end_s=END_S, may_hang=True)


def _lines(file: Path) -> Iterator[str]:
    with file.open(errors="replace") as lines:
        yield from lines
