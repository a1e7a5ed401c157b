"""The loop: when the reporter reads and reports, and when it takes over tables.

Pure: the clocks and the waiting come in as arguments. On the wall clock, as nginx does
(`steelyard_protocol.clock_phase`):

    report at   k I + 0.02 s, and later by up to `SPREAD_S` by its name     I: the interval
    follow at   0.23 I after that, when the controller has published its table

A tick that took too long is left out, so that no window is shorter than half an interval.
"""

from collections.abc import Callable
from math import ceil
from typing import Protocol

from steelyard_protocol import clock_phase

REPORT_S = 0.02
FOLLOW_PART = 0.23

# In intervals. A window over less would be noise.
SHORTEST = 0.5


class Ticks(Protocol):
    """What is done in each interval."""

    def report(self) -> object:
        """Read and report."""
        ...

    def follow(self) -> None:
        """Take over the tables."""
        ...


def run(
    ticks: Ticks,
    name: str,
    interval_s: float,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    wait: Callable[[float], bool],
) -> None:
    """Report and follow at every interval, until `wait` (for so many seconds) tells to stop."""
    instant_s = REPORT_S * min(1.0, interval_s) + clock_phase.spread_s(name, interval_s)
    due_s, pull = clock(), clock_phase.ANYWHERE
    ticks.follow()
    while True:
        now_s = clock()
        missed = max(1, ceil((now_s - due_s) / interval_s + SHORTEST))
        due_s = clock_phase.aimed(
            due_s + missed * interval_s,
            now_s=now_s,
            wall_s=wall_clock(),
            interval_s=interval_s,
            instant_s=instant_s,
            pull=pull,
        )
        pull = clock_phase.PULL
        if wait(max(0.0, due_s - clock())):
            return
        ticks.report()
        if wait(max(0.0, due_s + FOLLOW_PART * interval_s - clock())):
            return
        ticks.follow()
