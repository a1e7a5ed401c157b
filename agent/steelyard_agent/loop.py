"""The loop: tick, wait, tick, until a signal.

Pure: the clocks and the waiting come in as arguments. Ticks are due at whole multiples
of the interval on the wall clock, as `clock_phase` paces them. All agents and nginx aim
at the same instant, so that a sample and the traffic report of its window arrive
together. The controller ticks just after, and waits for neither. Each agent adds its own few
milliseconds, so that a thousand of them do not write in the same one.
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
    """An object with a tick at every interval, such as `agent.Agent`."""

    interval_s: float

    @property
    def name(self) -> str:
        """Return its unique name."""

    def tick(self) -> object:
        """Do the work of a tick."""

    def leave(self) -> object:
        """Send a last message."""


T = TypeVar("T", bound=Ticking)


def run(
    agent: T,
    *,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    wait: Callable[[float], Wake],
    reload: Callable[[T], T],
) -> None:
    """Tick at every interval until `wait` (given seconds) returns STOP; then leave.

    At RELOAD go on with `reload`'s result: another agent, which begins its
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
