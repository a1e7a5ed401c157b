"""The tick schedule: in which ticks an upstream is saved. Pure.

With a few servers, memories and history are written at every tick.
With thousands that would be most of a tick's work and megabytes a second, for
figures that move within tens of seconds; so each upstream has its turn every
so many ticks.
"""

from collections.abc import Iterable

# Servers in all, for each tick more between two turns: at 10,000 a turn is every 11th tick.
PEERS_A_TICK = 1000

# An upstream has writes and figures of its own, whatever the number of its servers: as much as so many cost.
UPSTREAM_IN_PEERS = 10

# A successor starts from a memory that is at most so many ticks old: a third of the law's own (30 s).
LONGEST_MEMORY_TICKS = 11

# A moment has some 45 bytes a server: 15 minutes of a server's are 40 kB, and of 10,000 servers 4 MB.
PEERS_A_MOMENT = 100


def in_peers(sizes: Iterable[int]) -> int:
    """Return how many servers cost as much as upstreams of these sizes."""
    return sum(size + UPSTREAM_IN_PEERS for size in sizes)


def memory_period(total: int) -> int:
    """Return how many ticks apart an upstream's memory is saved, with so many servers in all (`in_peers`)."""
    return min(LONGEST_MEMORY_TICKS, 1 + total // PEERS_A_TICK)


def moment_period(peers: int, total: int) -> int:
    """Return how many ticks apart an upstream's moments are, with so many servers in it and in all."""
    return max(1 + peers // PEERS_A_MOMENT, 1 + total // PEERS_A_TICK)


def is_turn(tick: int, position: int, period: int) -> bool:
    """Tell whether the upstream at `position` has its turn at this tick."""
    return (tick + position) % period == 0
