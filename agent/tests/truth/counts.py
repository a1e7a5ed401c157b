"""The rate of a count between two moments, from looks at the count. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter

Seen = tuple[float, float]
"""A look: seconds since 1970, and the count then."""


def rate(seen: Sequence[Seen], begin_s: float, end_s: float) -> float:
    """Return the count a second from one moment to another; the looks are in order, around both moments.

    Between two looks the count grows evenly. So a late look on a busy machine moves the rate little.
    """
    return (_at(seen, end_s) - _at(seen, begin_s)) / (end_s - begin_s)


def _at(seen: Sequence[Seen], moment_s: float) -> float:
    after = bisect_left(seen, moment_s, key=itemgetter(0))
    if not 0 < after < len(seen):
        raise ValueError(f"no looks around the moment {moment_s:.3f}")
    (before_s, before), (after_s, count) = seen[after - 1], seen[after]
    return before + (count - before) * (moment_s - before_s) / (after_s - before_s)
