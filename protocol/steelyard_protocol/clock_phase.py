"""The common phase: the instants of the clock at which senders act, so that none waits for another. Pure.

    agents sample at             k I           I: their interval
    nginx reports at             k I + 0.02 s  just after its workers have handed in their counts
    the controller ticks at      k T + 0.10 s
    nginx fetches at             k F + 0.25 s  F: its fetch_interval_s

each later by up to `SPREAD_S`, depending on its name, so that ten thousand do not act in
one instant. Lua's half is openresty/steelyard/lib/steelyard/core/clock_phase.lua.

The phase is only an aim. Durations are the monotonic clock's, and each is at
least 1 - MAX_SHIFT of the period: a stepped or wrong clock moves the phase
slowly, and stops or bunches nothing.

    due' = due + n T - clip(e, -S T, S T)

    n   periods from due to due': 1, or more if some were missed
    S   MAX_SHIFT; START_SHIFT the first time
    e   by how much due + n T misses its instant, within +-T/2
"""

from hashlib import blake2b
from math import ceil

MAX_SHIFT = 0.05
"""The largest difference of one period from the interval, as a share of it.

A phase error of half an interval is gone in ten periods.
"""

START_SHIFT = 0.5
"""The largest difference at a start: before the first period, any instant can be met."""

CONTROLLER_S = 0.10
"""When the controller ticks: samples and reports of the instant have come, over a slow network too."""

# 10,000 agents: one each 5 us, which Memcached can take, and half of the time that the controller waits.
SPREAD_S = 0.05

SHORTEST_INTERVALS = 0.5
"""The shortest period of senders that measure, in intervals: a shorter window would be noise."""


def spread_s(name: str, interval_s: float) -> float:
    """Return how long after the common instant the sender of this name acts, in seconds."""
    share = int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) / 2**32
    return share * min(SPREAD_S, SPREAD_S * interval_s)


def aimed(
    due_s: float,
    *,
    now_s: float,
    wall_s: float,
    interval_s: float,
    instant_s: float,
    shift: float = MAX_SHIFT,
) -> float:
    """Return when to act in place of `due_s`, on the monotonic clock: nearer to the common instant.

    `now_s` and `wall_s` are the monotonic and the wall clock of one moment. `instant_s` is the instant
    within the period. `shift` is the largest difference from `due_s`, as a share of the period.
    """
    missed_s = (wall_s + due_s - now_s - instant_s + interval_s / 2) % interval_s - interval_s / 2
    return due_s - max(-shift * interval_s, min(shift * interval_s, missed_s))


class Pace:
    """The instants of one sender: `due_s` is the next one on the monotonic clock, at first its start.

    An instant is one interval after the previous one was due, so the pace does not drift. `next` skips an
    instant that is less than `shortest` intervals away.
    """

    def __init__(
        self,
        due_s: float,
        *,
        interval_s: float,
        instant_s: float,
        shortest: float = SHORTEST_INTERVALS,
    ) -> None:
        self._due_s = due_s
        self._interval_s = interval_s
        self._instant_s = instant_s
        self._shortest = shortest
        self._shift: float = START_SHIFT

    @property
    def due_s(self) -> float:
        """The next instant, seconds of the monotonic clock."""
        return self._due_s

    def next(self, now_s: float, wall_s: float) -> int:
        """Go on to the next instant; return how many were left out.

        `now_s` and `wall_s` are the monotonic and the wall clock of this moment.
        """
        periods = max(1, ceil((now_s - self._due_s) / self._interval_s + self._shortest))
        self._due_s = aimed(
            self._due_s + periods * self._interval_s,
            now_s=now_s,
            wall_s=wall_s,
            interval_s=self._interval_s,
            instant_s=self._instant_s,
            shift=self._shift,
        )
        self._shift = MAX_SHIFT
        return periods - 1
