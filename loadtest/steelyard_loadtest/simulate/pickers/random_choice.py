"""A server at random, each with probability weight / total. Pure but for the generator passed in."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random


class RandomChoice:
    """Weighted random."""

    __slots__ = ("_ends", "_random")
    wants_key = False

    def __init__(self, random: Random) -> None:
        self._random = random
        self._ends: list[int] = []

    def update(self, weights: Sequence[int]) -> None:
        self._ends = list(accumulate(weights))

    def pick(self, now_s: float, key: int) -> int:  # noqa: ARG002 - a picker's
        return bisect_right(self._ends, self._random.random() * self._ends[-1])

    def answered(self, server: int, sent_s: float, now_s: float, ok: bool) -> None:
        pass
