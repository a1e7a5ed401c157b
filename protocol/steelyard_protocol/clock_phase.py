"""The common phase: the instants of the clock at which senders act, so that none waits for another. Pure.

    agents sample at             k I           I: their interval
    nginx reports at             k I + 0.02 s  just after its workers have handed in their counts
    the controller ticks at      k T + 0.10 s
    nginx fetches at             k F + 0.25 s  F: its fetch_interval_s

each later by up to `SPREAD_S`, by its name, so that ten thousand do not meet in
one instant. Lua's half is openresty/steelyard/lib/steelyard/core/clock_phase.lua.

The phase is only an aim. Durations are the monotonic clock's, and each is at
least 1 - MAX_SHIFT of the period: a clock that is stepped or wrong moves the phase
slowly, and stops or bunches nothing.

    due' = due + n T - clip(e, -S T, S T)

    n   periods from due to due': 1, or more where those between were missed
    S   MAX_SHIFT; START_SHIFT the first time
    e   by how much due + n T misses its instant, within +-T/2
"""

from hashlib import blake2b
from math import ceil

MAX_SHIFT = 0.05
"""The most by which one period differs from the interval, as a share of it.

A phase that is off by half an interval is reached in ten periods.
"""

START_SHIFT = 0.5
"""The same at a start, where no period has begun: the first instant is met, wherever it is."""

CONTROLLER_S = 0.10
"""When the controller ticks: samples and reports of the instant have come, over a slow network too."""

# 10,000 agents: one each 5 us, which Memcached can take; and half of the time that the controller waits.
SPREAD_S = 0.05

SHORTEST = 0.5
"""The shortest period, in intervals, of senders that measure: a window over less would be noise."""


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

    `now_s` and `wall_s` are the monotonic and the wall clock of one moment; `instant_s` is the instant
    within the period; `shift` is the share of the period by which it may differ from `due_s`.
    """
    missed_s = (wall_s + due_s - now_s - instant_s + interval_s / 2) % interval_s - interval_s / 2
    return due_s - max(-shift * interval_s, min(shift * interval_s, missed_s))


class Pace:
    """When one sender acts: `due_s`, on the monotonic clock, which is its start at first.

    The next instant is one interval after the last one was due, whatever was done between: it does not
    drift. One that is nearer than `shortest` intervals when `next` is called is left out.
    """

    def __init__(
        self,
        due_s: float,
        *,
        interval_s: float,
        instant_s: float,
        shortest: float = SHORTEST,
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
