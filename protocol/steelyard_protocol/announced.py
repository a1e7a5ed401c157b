"""The load balancers that announce themselves: whose reports are not read yet, because nobody declared them.

Pure. A weight table names the load balancers whose reports the controller reads. One that it does not name
appends a line to one key of Memcached, at each report, until a table does:

    steelyard:1:load-balancers    <upstream> <lb>\\n...

A line only says which key to look at: what is believed is the report, which its sender has signed where there
is a shared key. The key expires within seconds, and nobody has to empty it.
"""

from collections import defaultdict
from collections.abc import Iterable

from steelyard_protocol import wire

# Longer than a tick, and than the time between two reports: a controller mostly finds everybody there.
TTL_S = 3

# Upstreams that one load balancer announces at a time: the next ones follow when these are read.
AT_ONCE = 100


def lines(upstreams: Iterable[str], lb: str) -> bytes:
    """Return what a load balancer appends for these upstreams, of which there are no more than `AT_ONCE`."""
    return b"".join(f"{upstream} {lb}\n".encode() for upstream in upstreams)


def read(values: Iterable[bytes]) -> dict[str, set[str]]:
    """Return by upstream who announced itself; what is no such line is left out. Total, never raises."""
    by_upstream: defaultdict[str, set[str]] = defaultdict(set)
    for line in {line for value in values for line in value[: wire.MAX_BYTES].split(b"\n")}:
        upstream, _, lb = line.decode("ascii", "replace").partition(" ")
        if wire.is_name(upstream) and wire.is_name(lb):
            by_upstream[upstream].add(lb)
    return by_upstream
