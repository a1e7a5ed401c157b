"""How shares move: how soon they settle, and how much they swing after that. Pure.

A share of n requests is known to sqrt(p (1 - p) / n) only, so neither figure
counts a movement that the drawing of so few requests explains.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.lab.figures.stretches import Stretch
from steelyard_loadtest.lab.records import Observed

SMOOTH_S = 2.0
"""Twice the period in which weights change."""
SMOOTH_REQUESTS = 100
"""Two seconds at 10 requests/s are 20 requests, of which a share of a third is known to .1 only."""
NEAR = 0.2
"""Settled is within this part of the final share: what an operator would call the same."""
NEAR_FLOOR = 0.02
"""A share of .01 may be .03 without anybody's harm."""
NOISE_SIGMAS = 4.0
"""A minute of several servers leaves it by chance in two cells of a hundred, of three in thirty."""
SHORTEST_S = 3.0
"""A shorter stretch has no last third worth the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What each server answered in the interval that ended at t_s."""

    t_s: float
    served: Mapping[str, int]


def settle_s(observed: Sequence[Observed], stretch: Stretch) -> float | None:
    """Return how long after its begin every share stays near its mean over the last third, in s.

    The share is smoothed over the last 2 s, or over more until it rests on 100 requests.
    Near is within 20 % of that mean, .02, or four deviations of the difference of two
    shares of so many requests, whichever is most. Infinite: some share was away in the last third.
    None: nothing was answered, or the stretch is under 3 s.
    """
    moments = _moments(observed, stretch)
    final = _total(moment for moment in moments if moment.t_s > stretch.steady_s)
    if not final.total() or stretch.ended_s - stretch.began_s < SHORTEST_S:
        return None
    settled_s = stretch.began_s
    away = False
    for position, moment in enumerate(moments):
        if away:
            settled_s = moment.t_s
        away = _away(_window(moments[: position + 1]), final)
        if away and moment.t_s > stretch.steady_s:
            return math.inf
    return settled_s - stretch.began_s


def oscillation(observed: Sequence[Observed], cut: Sequence[Stretch]) -> float | None:
    """Return the part of the requests that changes servers from one observation to the next (a second).

    Over the last third of each stretch, the mean of

        1/2 sum_j |s_j(t) - s_j(t-1)| - 1/2 sum_j sqrt(2/pi) sqrt(p_j (1 - p_j) (1/n(t) + 1/n(t-1)))

    and at least 0. s_j: server j's share of the n requests of an observation; p_j: of
    both. What is taken off is the mean absolute difference of two such shares that
    are drawn alike (normal approximation). None: no two to compare.
    """
    moved = [
        _moved(before, after)
        for stretch in cut
        for before, after in _pairs(observed, stretch)
        if before.total() and after.total()
    ]
    return max(0.0, sum(moved) / len(moved)) if moved else None


def _moved(before: Counter[str], after: Counter[str]) -> float:
    both: Counter[str] = before + after
    spread = 2 / math.pi * (1 / before.total() + 1 / after.total())
    total = 0.0
    for server, served in both.items():
        part: float = served / both.total()
        change = abs(after[server] / after.total() - before[server] / before.total())
        total += change - math.sqrt(spread * part * (1 - part))
    return total / 2


def _pairs(observed: Sequence[Observed], stretch: Stretch) -> list[tuple[Counter[str], Counter[str]]]:
    steady = [moment for moment in _moments(observed, stretch) if moment.t_s > stretch.steady_s]
    return [(Counter(before.served), Counter(after.served)) for before, after in pairwise(steady)]


def _moments(observed: Sequence[Observed], stretch: Stretch) -> list[Moment]:
    return [moment for moment in _rounds(observed) if stretch.began_s < moment.t_s <= stretch.ended_s]


def _rounds(observed: Sequence[Observed]) -> Iterator[Moment]:
    """Servers are read one after the other: a round ends where a server comes again."""
    served: dict[str, int] = {}
    t_s = 0.0
    for entry in sorted(observed, key=lambda entry: entry.t_s):
        if entry.server in served:
            yield Moment(t_s=t_s, served=served)
            served = {}
        served[entry.server] = entry.served
        t_s = entry.t_s
    if served:
        yield Moment(t_s=t_s, served=served)


def _window(moments: Sequence[Moment]) -> Counter[str]:
    total: Counter[str] = Counter()
    for moment in reversed(moments):
        if moments[-1].t_s - moment.t_s >= SMOOTH_S and total.total() >= SMOOTH_REQUESTS:
            break
        total.update(moment.served)
    return total


def _away(window: Counter[str], final: Counter[str]) -> bool:
    requests, last = window.total(), final.total()
    if not requests:
        return False
    for server in window | final:
        part = final[server] / last
        noise = math.sqrt(part * (1 - part) * (1 / requests + 1 / last))
        if abs(window[server] / requests - part) > max(NEAR * part, NEAR_FLOOR, NOISE_SIGMAS * noise):
            return True
    return False


def _total(moments: Iterable[Moment]) -> Counter[str]:
    total: Counter[str] = Counter()
    for moment in moments:
        total.update(moment.served)
    return total
