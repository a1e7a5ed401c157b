"""Ring hash, Ketama's way: each server has points on a ring, a key goes to the next point. Pure.

Points are as many as in Envoy by default: at least 1024 on the ring, shared out by weight
(https://www.envoyproxy.io/docs, "Ring hash", minimum_ring_size).
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from steelyard_loadtest.simulate.pickers.hashing import hash64

LEAST_POINTS = 1024

# One point of the lightest server is the finest a weight is told; a ring stays below this for any weights.
MOST_POINTS = 1 << 17


class RingHash:
    """Consistent hashing of the request's key."""

    __slots__ = ("_hashes", "_servers")
    wants_key = True

    def __init__(self) -> None:
        self._hashes: list[int] = []
        self._servers: list[int] = []

    def update(self, weights: Sequence[int]) -> None:
        self._hashes, self._servers = _ring(tuple(weights))

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        return self._servers[bisect_left(self._hashes, hash64(str(key))) % len(self._servers)]

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        pass


# Load balancers with the same weights have the same ring.
@lru_cache(maxsize=8)
def _ring(weights: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Return the points' hashes, ascending, and whose each is."""
    total, lightest = sum(weights), min(weights)
    # The lightest server gets a whole number of points, so equal weights get equally many.
    each = -(-LEAST_POINTS * lightest // total)
    scale = min(each / lightest, MOST_POINTS / total)
    points = sorted(
        (hash64(f"server-{server}_{point}"), server)
        for server, weight in enumerate(weights)
        for point in range(max(1, round(weight * scale)))
    )
    return [hashed for hashed, _ in points], [server for _, server in points]
