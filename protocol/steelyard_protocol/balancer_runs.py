"""The runs of load balancers that report, so that two programs of one name are noticed.

Pure. Two programs of one name write their reports to one key, and the controller reads whichever was last. So
each appends a line to another key with each report:

    steelyard:1:runs    <upstream> <lb> <boot> <seq>\\n...

`boot` and `seq` are the report's. Programs of one name may report on different upstreams, such as `http {}`
and `stream {}` of one nginx. A line is not signed: it changes no weight. The lines expire within seconds, so
they need no clean-up. docs/contract/runs.json has examples for this file and nginx's core/traffic_report.lua.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard_protocol import wire
from steelyard_protocol.traffic_report import TrafficReport

# Longer than a tick and the time between two reports.
TTL_S = 3

# Upstreams with a line in each report, the first by name. Two programs of one name mostly have the same ones.
MOST_UPSTREAMS = 4


class Run(NamedTuple):
    """One line: the number of a run's newest report on an upstream."""

    upstream: str
    lb: str
    boot: str
    seq: int


def run_of(report: TrafficReport) -> Run:
    """Return a report's line."""
    return Run(report.upstream, report.lb, report.boot, report.seq)


def lines(runs: Iterable[Run]) -> bytes:
    """Return the text that a load balancer appends."""
    first = sorted(runs)[:MOST_UPSTREAMS]
    return "".join(f"{run.upstream} {run.lb} {run.boot} {run.seq}\n" for run in first).encode()


def read(values: Iterable[bytes]) -> Iterator[Run]:
    """Yield the lines in their order, without malformed ones. Total, never raises."""
    for value in values:
        for line in value[: wire.MAX_BYTES].split(b"\n"):
            words = line.decode("ascii", "replace").split(" ")
            if (
                len(words) == 4
                and all(map(wire.is_name, words))
                and words[3].isdigit()
                and len(words[3]) < 17
            ):
                yield Run(words[0], words[1], words[2], int(words[3]))
