"""The loop: tick, wait, tick, until a signal.

Pure: the clocks and the waiting come in as arguments. Ticks are due at whole multiples
of the interval on the wall clock, as `clock_phase` paces them. All agents and nginx aim
at the same instant, so that a sample and the traffic report of its window are there
together, and the controller, which ticks just after, need not wait for either; the few
milliseconds of each agent's own keep a thousand of them from writing in the same one.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from steelyard_protocol import clock_phase
from steelyard_protocol.clock_phase import Pace


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

    def tick(self) -> object:
        """Do what is due."""

    def leave(self) -> object:
        """Say goodbye."""


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

    def begun() -> Pace:
        instant_s = clock_phase.spread_s(agent.name, agent.interval_s)
        agent.tick()
        pace = Pace(clock(), interval_s=agent.interval_s, instant_s=instant_s)
        pace.next(clock(), wall_clock())
        return pace

    pace = begun()
    while True:
        match wait(max(0.0, pace.due_s - clock())):
            case Wake.STOP:
                agent.leave()
                return
            case Wake.RELOAD:
                successor = reload(agent)
                if successor is not agent:
                    agent = successor
                    pace = begun()
            case Wake.DUE:
                agent.tick()
                pace.next(clock(), wall_clock())
