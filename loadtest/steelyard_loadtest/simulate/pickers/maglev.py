"""Maglev hashing: a table that servers fill in turns, each along a permutation of its own.

Pure. Eisenbud et al., *Maglev: A Fast and Reliable Software Network Load Balancer* (NSDI 2016),
section 3.4; a server of half the largest weight gets every second turn, as in Envoy.
"""

from collections.abc import Sequence
from functools import lru_cache

from steelyard_loadtest.simulate.pickers.hashing import hash64

# The paper's (and Envoy's) size: a prime, over 100 times the servers of most clusters.
TABLE_SIZE = 65537


class Maglev:
    """Consistent hashing of the request's key by table."""

    __slots__ = ("_table",)
    wants_key = True

    def __init__(self) -> None:
        self._table: list[int] = []

    def update(self, weights: Sequence[int]) -> None:
        self._table = _filled(tuple(weights))

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        return self._table[hash64(str(key)) % TABLE_SIZE]

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        pass


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
