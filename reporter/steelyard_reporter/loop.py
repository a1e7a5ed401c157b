"""The loop: when the reporter reads and reports, and when it takes over tables.

Pure: the clocks and the waiting come in as arguments. On the wall clock, as nginx does
(`steelyard_protocol.clock_phase`):

    report at   k I + 0.02 s, later by up to `SPREAD_S` depending on its name     I: the interval
    follow at   0.23 I after that, when the controller has published its table
"""

from collections.abc import Callable

from steelyard_protocol import clock_phase
from steelyard_protocol.clock_phase import Pace

REPORT_S = 0.02
FOLLOW_PART = 0.23


def run(
    name: str,
    interval_s: float,
    *,
    report: Callable[[], object],
    follow: Callable[[], None],
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    wait: Callable[[float], bool],
) -> None:
    """Report and follow at every interval, until `wait` (given seconds) returns True."""
    instant_s = REPORT_S * min(1.0, interval_s) + clock_phase.spread_s(name, interval_s)
    pace = Pace(clock(), interval_s=interval_s, instant_s=instant_s)
    follow()
    while True:
        pace.next(clock(), wall_clock())
        if wait(max(0.0, pace.due_s - clock())):
            return
        report()
        if wait(max(0.0, pace.due_s + FOLLOW_PART * interval_s - clock())):
            return
        follow()
