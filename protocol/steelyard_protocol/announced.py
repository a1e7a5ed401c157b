"""Announcements of load balancers that no weight table names yet.

Pure. A weight table names the load balancers whose reports the controller reads. Any other load balancer
appends a line to one key of Memcached at each report, until a table names it:

    steelyard:1:load-balancers    <upstream> <lb>\\n...

A line only names a key to read. The controller trusts the report itself, which is signed if there is a shared
key. The announcements expire within seconds, so they need no clean-up.
"""

from collections import defaultdict
from collections.abc import Iterable

from steelyard_protocol import wire

# Longer than a tick and the time between two reports, so that most reads find every load balancer.
TTL_S = 3

# Upstreams that a load balancer announces at a time: the others follow once these are read.
AT_ONCE = 100


def lines(upstreams: Iterable[str], lb: str) -> bytes:
    """Return the text that a load balancer appends for at most `AT_ONCE` upstreams."""
    return b"".join(f"{upstream} {lb}\n".encode() for upstream in upstreams)


def read(values: Iterable[bytes]) -> dict[str, set[str]]:
    """Return the announced load balancers by upstream, without malformed lines. Total, never raises."""
    by_upstream: defaultdict[str, set[str]] = defaultdict(set)
    for line in {line for value in values for line in value[: wire.MAX_BYTES].split(b"\n")}:
        upstream, _, lb = line.decode("ascii", "replace").partition(" ")
        if wire.is_name(upstream) and wire.is_name(lb):
            by_upstream[upstream].add(lb)
    return by_upstream
