"""The tick schedule: the ticks at which an upstream is saved. Pure.

With a few servers, memories and history are written at every tick. With
thousands, that would be most of a tick's work and megabytes a second, although
the figures change over tens of seconds. So each upstream has its turn every few
ticks.
"""

from collections.abc import Iterable

# Two turns are one tick further apart for each this many servers in all: 11 ticks at 10,000 servers.
PEERS_PER_TICK = 1000

# The writes and figures of an upstream cost as much as this many servers, whatever its size.
UPSTREAM_IN_PEERS = 10

# The oldest saved memory is this many ticks old: a third of the law's own memory (30 s).
LONGEST_MEMORY_TICKS = 11

# Moments of an upstream are one tick further apart for each this many of its servers. A moment has some 45
# bytes a server: 15 minutes take 40 kB for one server, 4 MB for 10,000.
PEERS_PER_MOMENT_TICK = 100


def in_peers(sizes: Iterable[int]) -> int:
    """Return the cost of upstreams of these sizes, in servers."""
    return sum(size + UPSTREAM_IN_PEERS for size in sizes)


def memory_period(total: int) -> int:
    """Return the ticks between two saves of a memory; `total` is the cost of all servers (`in_peers`)."""
    return min(LONGEST_MEMORY_TICKS, 1 + total // PEERS_PER_TICK)


def moment_period(peers: int, total: int) -> int:
    """Return the ticks between two history moments of an upstream of this size."""
    return max(1 + peers // PEERS_PER_MOMENT_TICK, 1 + total // PEERS_PER_TICK)


def is_turn(tick: int, position: int, period: int) -> bool:
    """Return whether the upstream at `position` has its turn at this tick."""
    return (tick + position) % period == 0
