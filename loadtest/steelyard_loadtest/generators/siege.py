"""siege: a closed loop of users in threads of C, as the paper used it.

Beyond some thousand users its sockets get numbers that its select() cannot hold, and it
fails without sending (`Resource temporarily unavailable`, 4.0.7): the users are shared
out over as many sieges as it takes.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

from steelyard_loadtest.generators.job import Job
from steelyard_loadtest.generators.load import TwoRuns
from steelyard_loadtest.generators.siege_output import parse_siege, shared_out, together
from steelyard_loadtest.machine.child_process import Child
from steelyard_loadtest.measurements.trials import Outcome
from steelyard_loadtest.templates import render_file

LEAST_LIMIT = 2048
"""siege takes no more users than its `limit`, 255 by default; the paper had 2000."""

MOST_USERS = 500
"""Of one siege: half of what select() can hold, because a closing socket keeps its number for a while."""

END_S = 2.0
"""siege takes a few tenths of a second to end; when it hangs nothing is lost by killing it."""

NEVER = 1_000_000_000
"""siege gives up after 1024 failures by default: a level at which servers fail would have no figures."""

TEMPLATE = Path(__file__).with_name("templates") / "siegerc"


def start(job: Job) -> TwoRuns:
    """Start siege with `level` users."""
    shares = shared_out(round(job.level), MOST_USERS)
    home = job.folder / "siege-home"  # it writes cookies and a template there
    home.mkdir(exist_ok=True)
    configuration = job.folder / "siegerc"
    limits = {"timeout": round(job.timeout_s), "failures": NEVER, "limit": LEAST_LIMIT}
    configuration.write_text(render_file(TEMPLATE, limits))

    length_s = 0.0

    def run(seconds: float) -> list[Child]:
        nonlocal length_s
        now_s = time.time()
        # It ends on a whole second of the clock.
        length_s = math.floor(now_s) + math.ceil(seconds) - now_s
        return [siege(number, users, seconds) for number, users in enumerate(shares)]

    def siege(number: int, users: int, seconds: float) -> Child:
        flags = ["--benchmark", f"--concurrent={users}", f"--time={math.ceil(seconds)}S"]
        return Child(
            "siege",
            ["stdbuf", "-oL", job.programs.siege or "siege", f"--rc={configuration}", *flags, job.url],
            output=job.folder / f"siege-{number}.out",
            errors=job.folder / f"siege-{number}.err",
            environment={"HOME": str(home), "SIEGERC": str(configuration)},
        )

    def read(children: Sequence[Child]) -> Outcome:
        return together([
            parse_siege(_lines(child.output), _said(child), length_s=length_s, cpu_s=child.used_cpu_s)
            for child in children
        ])  # fmt: skip

    return TwoRuns(job, run=run, read=read, end_s=END_S, may_hang=True)


def _said(child: Child) -> str:
    return child.errors.read_text(errors="replace")


def _lines(file: Path) -> Iterator[str]:
    with file.open(errors="replace") as lines:
        yield from lines
