"""The movement of shares between a trial's events: how soon they settle. Pure.

A share of n requests is known to sqrt(p (1 - p) / n) only, so a movement within that noise does not count.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard_loadtest.measurements.trials import Observed
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.scenario.definition import Event

SMOOTH_S = 2.0
"""Twice the period in which weights change."""
SMOOTH_REQUESTS = 100
"""Two seconds at 10 requests/s are 20 requests, of which a share of a third is known to .1 only."""
NEAR = 0.2
"""Settled is within this part of the final share: an operator would call it the same."""
NEAR_FLOOR = 0.02
"""A share of .01 may be .03 without harm."""
NOISE_SIGMAS = 4.0
"""By chance alone, shares leave it in two of a hundred minutes with several servers, in thirty with three."""
SHORTEST_S = 3.0
"""A shorter stretch has no meaningful last third."""

Moment = tuple[float, Counter[str]]
"""The end of an interval, and the number of answers from each server in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A time without events at the servers; seconds since the counted part began."""

    began_s: float
    ended_s: float

    @property
    def steady_s(self) -> float:
        """Return the begin of its last third: by then shares should have settled."""
        return self.began_s + (self.ended_s - self.began_s) * 2 / 3


def moments_s(events: Sequence[Event]) -> list[float]:
    """Return the moments of changes, ascending: the end of a lasting event is a change like its begin."""
    begins = {event.at_s for event in events}
    return sorted(begins | {event.at_s + event.for_s for event in events if event.lasts})


def stretches(events: Sequence[Event], ended_s: float) -> list[Stretch]:
    """Cut a trial of `ended_s` seconds at its events; the first stretch begins with the load."""
    cuts = [0.0, *(moment for moment in moments_s(events) if 0 < moment < ended_s), ended_s]
    return [Stretch(began_s=begin, ended_s=end) for begin, end in pairwise(cuts) if end > begin]


def takes_part(events: Sequence[Event], server: str, at_s: float) -> bool:
    """Return whether the balancer is meant to use a server at a moment.

    A server whose first event is a join takes no part before it.
    """
    own = sorted(
        (event for event in events if event.server == server and not event.lasts),
        key=lambda event: event.at_s,
    )
    before = [event for event in own if event.at_s < at_s]
    if before:
        return before[-1].do == "join"
    return not own or own[0].do == "leave"


def settle_s(observed: Sequence[Observed], stretch: Stretch) -> float | None:
    """Return how long after its begin every share stays near its mean over the last third, in s.

    The share is smoothed over the last 2 s, or longer until it has 100 requests. Near is within the largest
    of three: 20 % of that mean, .02, or four deviations of the difference of two shares with these numbers of
    requests. Infinite: some share was away in the last third. None: nothing was answered, or the stretch is
    under 3 s.
    """
    rounds = moments(observed, stretch)
    final = sum((served for t_s, served in rounds if t_s > stretch.steady_s), Counter[str]())
    if not final.total() or stretch.ended_s - stretch.began_s < SHORTEST_S:
        return None
    settled_s = stretch.began_s
    away = False
    for position, (t_s, _) in enumerate(rounds, 1):
        if away:
            settled_s = t_s
        away = _away(window(rounds[:position]), final)
        if away and t_s > stretch.steady_s:
            return math.inf
    return settled_s - stretch.began_s


def moments(observed: Sequence[Observed], stretch: Stretch) -> list[Moment]:
    """Return the observations that ended in a stretch."""
    inside = [entry for entry in observed if stretch.began_s < entry.t_s <= stretch.ended_s]
    rounds = grouped(inside, lambda entry: entry.t_s)
    return [(t_s, Counter({one.server: one.served for one in own})) for t_s, own in sorted(rounds.items())]


def window(recent: Sequence[Moment]) -> Counter[str]:
    """Return the answers of the last SMOOTH_S of these, or of more until they are SMOOTH_REQUESTS."""
    total: Counter[str] = Counter()
    for t_s, served in reversed(recent):
        if recent[-1][0] - t_s >= SMOOTH_S and total.total() >= SMOOTH_REQUESTS:
            break
        total.update(served)
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
