"""Weighted round robin in nginx's smooth order, from the front. Pure.

At each pick every current weight grows by the server's weight; the largest is chosen and gives
back the sum of all (nginx, ngx_http_upstream_get_peer). O(servers) a pick.
"""

from collections.abc import Sequence


class RoundRobin:
    """Smooth weighted round robin."""

    __slots__ = ("_current", "_total", "_weights")
    wants_key = False

    def __init__(self) -> None:
        self._weights: list[int] = []
        self._current: list[int] = []
        self._total = 0

    def update(self, weights: Sequence[int]) -> None:
        weights = list(weights)
        if weights != self._weights:
            self._weights, self._current, self._total = weights, [0] * len(weights), sum(weights)

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        self._current = [
            current + weight for current, weight in zip(self._current, self._weights, strict=True)
        ]
        best = max(range(len(self._current)), key=self._current.__getitem__)
        self._current[best] -= self._total
        return best

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        pass
