"""The mean latency of the latest requests, from HAProxy's sliding mean.

Pure. HAProxy keeps for each server A, a mean of whole milliseconds, rounded up. At first it is the mean of
all n requests; later a request's part fades by 1/N with each further request (N = 512,
`TIME_STATS_SAMPLES`). Between two looks, with m requests between them,

    A1 = r A0 + (1 - r) x        x: the mean of the m;  r: the rest of A0's part
    r  = (min(n0, N) / min(n1, N)) (1 - 1/N)^(requests beyond the first N)
    x  = (A1 - r A0) / (1 - r)   off by at most e = (1 + r) / (2 (1 - r)) ms, from the rounding

For few requests e is large. So the reported mean begins as A1. For each span, from the longest to the
latest, it is moved into [x - e, x + e], no further. It follows at once a change that the latest requests
prove, and does not follow the rounding.

The mean itself is false in two cases. Then only spans count (`Truth`):

- Since 3.0 a process can begin with old counts (`stats-file`, `shm-stats-file`) and a sum of 0. The formula
  for a span still holds, since it takes nothing but the sum's growth.
- Since 3.3 n is the count of one thread group when a request's part is to fade, but the sum is that of all.
  Until each of G groups has served N requests, the sum grows to up to G times its true value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MEAN_LENGTH = 512
"""N, the length of HAProxy's sliding mean (its manual says 1024)."""

MOST_OLD_SHARE = 0.2
"""A sufficiently small r: after 820 requests e is 0.75 ms, and earlier looks are not needed."""

MOST_LOOKS = 24
"""Those in between are thinned out, the old ones first: a span need not begin at every look."""

MOST_OLD_SHARE_ALONE = 0.5
"""The largest r of a span that is believed without the mean: e is 1.5 ms, after 355 requests."""

MOST_COLD_SHARE = 0.1
"""Part of a server's requests in groups that have not served N of them; x is at most 1/9 too large."""

Look = tuple[int, int]
"""(n, A) at one moment: the number of requests in HAProxy's mean, and that mean in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Counts at which HAProxy's mean is true, and counts from which the spans between looks are."""

    mean_until: float = float("inf")
    spans_from: int = 0


def truth(first: int, groups: int, *, began_at_0: bool) -> Truth:
    """Return the truth about a server that had `first` requests when it was first seen.

    `groups` are the thread groups that count on their own. `began_at_0` is whether the first requests are
    known to be the process's own.
    """
    # A group below N has less than N / n of n requests.
    cold = int((groups - 1) * MEAN_LENGTH / MOST_COLD_SHARE)
    if not began_at_0:
        return Truth(mean_until=0, spans_from=first + cold)
    return Truth(mean_until=MEAN_LENGTH, spans_from=cold) if cold else Truth()


def mean_ms(looks: Sequence[Look], truth: Truth) -> float | None:
    """Return the mean in ms of the latest requests, None if unknown; the last look is the newest."""
    n1, rounded1 = looks[-1]
    latest = newest = _middle(rounded1)
    if n1 >= truth.mean_until:
        looks = [look for look in looks if look[0] >= truth.spans_from]
        if not looks or left(looks[0][0], n1) > MOST_OLD_SHARE_ALONE:
            return None
    for n0, rounded0 in looks[:-1]:
        rest = left(n0, n1)
        if rest < 1:
            mean, error = (newest - rest * _middle(rounded0)) / (1 - rest), (1 + rest) / (2 * (1 - rest))
            latest = min(max(latest, mean - error), mean + error)
    return max(0.0, latest)


def kept(looks: Sequence[Look]) -> tuple[Look, ...]:
    """Return the looks for comparison with later ones."""
    first = max((i for i, (n, _) in enumerate(looks) if left(n, looks[-1][0]) <= MOST_OLD_SHARE), default=0)
    some = tuple(looks[first:])
    half = len(some) // 2
    return some if len(some) <= MOST_LOOKS else (*some[:half:2], *some[half + 1 :])


def left(n0: int, n1: int) -> float:
    """Return r, the rest of the mean of n0 requests among n1; 0..1."""
    if n0 <= 0:
        return 0.0
    within: float = min(n0, MEAN_LENGTH) / min(n1, MEAN_LENGTH)
    return within * (1 - 1 / MEAN_LENGTH) ** max(0, n1 - max(n0, MEAN_LENGTH))


def _middle(rounded_up: int) -> float:
    """Return the middle of the values that round up to this."""
    return max(0.0, rounded_up - 0.5)
