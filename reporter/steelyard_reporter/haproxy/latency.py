"""The mean latency of the latest requests, out of HAProxy's sliding mean.

Pure. HAProxy keeps for each server A, a mean of whole milliseconds, rounded up: of all its requests n
at first, and later one in which a request's part fades by 1/N with each that follows (N = 512,
`TIME_STATS_SAMPLES`). Between two looks, with m requests between them,

    A1 = r A0 + (1 - r) x        x: the mean of the m;  r: what is left of A0's part
    r  = (min(n0, N) / min(n1, N)) (1 - 1/N)^(requests beyond the first N)
    x  = (A1 - r A0) / (1 - r)   off by at most (1 + r) / (2 (1 - r)) ms, from the rounding

so x is taken over as few requests as that error allows: it may be a millisecond, or a tenth of A1. Until
there were so many, A1 itself stands for it.
"""

from collections.abc import Sequence

SAMPLES = 512
"""N, the length of HAProxy's sliding mean (its manual says 1024)."""

ALLOWED_MS = 1.0
ALLOWED_PART = 0.1

Look = tuple[int, int]
"""(n, A) at one moment: how many requests HAProxy's mean has seen, and that mean in ms."""


def mean_ms(looks: Sequence[Look]) -> tuple[float, int]:
    """Return the mean in ms of the latest requests, and the position of the look from which on it is.

    The last look is the newest; those before that position are needed no more.
    """
    n1, mean1 = looks[-1]
    for position in range(len(looks) - 2, -1, -1):
        n0, mean0 = looks[position]
        rest = left(n0, n1)
        if rest < 1 and (1 + rest) / (2 * (1 - rest)) <= max(ALLOWED_MS, ALLOWED_PART * mean1):
            return max(0.0, (_middle(mean1) - rest * _middle(mean0)) / (1 - rest)), position
    return _middle(mean1), 0


def left(n0: int, n1: int) -> float:
    """Return r, what is left of the mean of n0 requests when there were n1; 0..1."""
    if n0 <= 0:
        return 0.0
    within: float = min(n0, SAMPLES) / min(n1, SAMPLES)
    return within * (1 - 1 / SAMPLES) ** max(0, n1 - max(n0, SAMPLES))


def _middle(rounded_up: int) -> float:
    """Return the middle of what was rounded up to this."""
    return max(0.0, rounded_up - 0.5)
