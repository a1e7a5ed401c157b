"""The runs of load balancers that report, so that two programs of one name are noticed.

Pure. Two programs of one name write their reports to one key, and the controller reads whichever was last. So
each appends a line to another key with each report:

    steelyard:1:runs    <upstream> <lb> <boot> <seq>\\n...

`boot` and `seq` are the report's. Programs of one name may report on different upstreams, such as `http {}`
and `stream {}` of one nginx. A line is not signed: it changes no weight. The lines expire within seconds, so
they need no clean-up. docs/contract/runs.json has examples for this file and nginx's core/traffic_report.lua.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from steelyard_protocol import wire
from steelyard_protocol.traffic_report import TrafficReport

# Longer than a tick and the time between two reports.
TTL_S = 3

# Upstreams with a line in each report, the first by name. Two programs of one name mostly have the same ones.
MOST_UPSTREAMS = 4

# One expression for all lines: a hundred load balancers append some thousand in three seconds.
_LINE = re.compile(
    rf"^({wire.NAME.pattern}) ({wire.NAME.pattern}) ({wire.NAME.pattern}) ([0-9]{{1,16}})$", re.M
)


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
        for upstream, lb, boot, seq in _LINE.findall(value[: wire.MAX_BYTES].decode("ascii", "replace")):
            yield Run(upstream, lb, boot, int(seq))
