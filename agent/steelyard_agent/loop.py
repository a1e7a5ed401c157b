"""The loop: tick, wait, tick, until a signal; and when ticks are due.

Pure: the clocks and the waiting come in as arguments.

    tick n + 1 is due one interval after tick n was, or so many as it took longer, as
    `clock_phase` aims it: at whole multiples of the interval on the wall clock

whatever the ticks before it took: the schedule does not drift. All agents and
nginx aim at the same instant, so that a sample and the traffic report of its
window are there together, and the controller, which ticks just after, need not
wait for either; the few milliseconds of each agent's own keep a thousand of
them from writing in the same one.
"""

from collections.abc import Callable
from enum import Enum
from math import ceil
from typing import Protocol, TypeVar

from steelyard_protocol import clock_phase

# In intervals. A sample over less would be noise: a tick that is nearer is left out.
SHORTEST = 0.5


class Wake(Enum):
    """Why a wait ended."""

    DUE = "the time is over"
    RELOAD = "a signal asks to read the settings again"
    STOP = "a signal asks to end"


class Ticking(Protocol):
    """What ticks at every interval, such as `agent.Agent`."""

    interval_s: float

    @property
    def name(self) -> str:
        """Return what tells it from all others."""
        ...

    def tick(self) -> object:
        """Do what is due."""
        ...

    def leave(self) -> object:
        """Say goodbye."""
        ...


T = TypeVar("T", bound=Ticking)


def run(
    agent: T,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    wait: Callable[[float], Wake],
    reload: Callable[[T], T],
) -> None:
    """Tick at every interval until `wait` (for so many seconds) says STOP; then leave.

    At RELOAD go on with what `reload` returns: another agent, which begins its
    own schedule, or the same one, which does not miss a tick.
    """
    while True:
        successor = _until_replaced(agent, clock=clock, wall_clock=wall_clock, wait=wait, reload=reload)
        if successor is None:
            agent.leave()
            return
        agent = successor


def _until_replaced(
    agent: T,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    wait: Callable[[float], Wake],
    reload: Callable[[T], T],
) -> T | None:
    interval_s = agent.interval_s
    instant_s = clock_phase.spread_s(agent.name, interval_s)
    agent.tick()
    last_s, pull = clock(), clock_phase.ANYWHERE
    due_s: float | None = None
    while True:
        if due_s is None:
            now_s = clock()
            due_s = last_s = clock_phase.aimed(
                last_s + next_tick(0, (now_s - last_s) / interval_s) * interval_s,
                now_s=now_s,
                wall_s=wall_clock(),
                interval_s=interval_s,
                instant_s=instant_s,
                pull=pull,
            )
            pull = clock_phase.PULL
        match wait(max(0.0, due_s - clock())):
            case Wake.STOP:
                return None
            case Wake.RELOAD:
                successor = reload(agent)
                if successor is not agent:
                    return successor
            case Wake.DUE:
                agent.tick()
                due_s = None


def next_tick(tick: int, elapsed: float) -> int:
    """Return the number of the tick after `tick`, `elapsed` intervals after tick 0 was due."""
    return max(tick, ceil(elapsed - SHORTEST)) + 1
