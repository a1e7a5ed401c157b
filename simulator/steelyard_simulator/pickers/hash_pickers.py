"""Pickers to compare ours with that hash the request's key: ring hash, Maglev. Pure.

ringhash   Ketama: each server has points on a ring, a key goes to the next point. Points are as many as in
           Envoy by default: at least 1024 on the ring, shared out by weight
           (https://www.envoyproxy.io/docs, "Ring hash", minimum_ring_size)
maglev     a table that servers fill in turns, each along a permutation of its own. Eisenbud et al., *Maglev:
           A Fast and Reliable Software Network Load Balancer* (NSDI 2016), section 3.4; a server of half
           the largest weight gets every second turn, as in Envoy
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from steelyard_simulator.pickers.comparison_pickers import ComparisonPicker


def hash64(text: str) -> int:
    """Return 64 bits of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


LEAST_POINTS = 1024

# One point of the lightest server is the finest a weight is told; a ring stays below this for any weights.
MOST_POINTS = 1 << 17


class RingHash(ComparisonPicker):
    """Consistent hashing of the request's key."""

    __slots__ = ("_hashes", "_servers")
    wants_key = True

    def update(self, weights: Sequence[int]) -> None:
        self._hashes, self._servers = _ring(tuple(weights))

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        return self._servers[bisect_left(self._hashes, hash64(str(key))) % len(self._servers)]


# Load balancers with the same weights have the same ring.
@lru_cache(maxsize=8)
def _ring(weights: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the points' hashes, ascending, and whose each is."""
    total, lightest = sum(weights), min(filter(None, weights))
    # The lightest server gets a whole number of points, so equal weights get equally many.
    each = -(-LEAST_POINTS * lightest // total)
    scale = min(each / lightest, MOST_POINTS / total)
    points = sorted(
        (hash64(f"server-{server}_{point}"), server)
        for server, weight in enumerate(weights)
        for point in range(max(1, round(weight * scale)) if weight else 0)
    )
    return [hashed for hashed, _ in points], [server for _, server in points]


# The paper's (and Envoy's) size: a prime, over 100 times the servers of most clusters.
TABLE_SIZE = 65537


class Maglev(ComparisonPicker):
    """Consistent hashing of the request's key by table."""

    __slots__ = ("_table",)
    wants_key = True

    def update(self, weights: Sequence[int]) -> None:
        self._table = _filled(tuple(weights))

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        return self._table[hash64(str(key)) % TABLE_SIZE]


# Load balancers with the same weights have the same table, and it takes 0.1 s to fill.
@lru_cache(maxsize=8)
def _filled(weights: tuple[int, ...]) -> list[int]:
    at = [hash64(f"server-{server} offset") % TABLE_SIZE for server in range(len(weights))]
    skip = [hash64(f"server-{server} skip") % (TABLE_SIZE - 1) + 1 for server in range(len(weights))]
    table, left, heaviest = [-1] * TABLE_SIZE, TABLE_SIZE, max(weights)
    credit = [0] * len(weights)
    while True:
        for server, weight in enumerate(weights):
            credit[server] += weight
            if credit[server] < heaviest:
                continue
            credit[server] -= heaviest
            slot = at[server]
            while table[slot] >= 0:
                slot = (slot + skip[server]) % TABLE_SIZE
            table[slot], at[server] = server, (slot + skip[server]) % TABLE_SIZE
            left -= 1
            if left == 0:
                return table
