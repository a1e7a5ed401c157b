"""The loop: tick, wait, tick, until a signal. The clock, the waiting and randomness come in as arguments."""

from collections.abc import Callable
from enum import Enum

from steelyard_agent import schedule
from steelyard_agent.agent import Agent


class Wake(Enum):
    """Why a wait ended."""

    DUE = "the time is over"
    RELOAD = "a signal asks to read the settings again"
    STOP = "a signal asks to end"


def run(
    agent: Agent,
    *,
    clock: Callable[[], float],
    random: Callable[[], float],
    wait: Callable[[float], Wake],
    reload: Callable[[Agent], Agent],
) -> None:
    """Tick at every interval until `wait` (for so many seconds) says STOP; then leave.

    At RELOAD go on with what `reload` returns: another agent, which begins its
    own schedule, or the same one, which does not miss a tick.
    """
    while True:
        successor = _until_replaced(agent, clock=clock, random=random, wait=wait, reload=reload)
        if successor is None:
            agent.leave()
            return
        agent = successor


def _until_replaced(
    agent: Agent,
    *,
    clock: Callable[[], float],
    random: Callable[[], float],
    wait: Callable[[float], Wake],
    reload: Callable[[Agent], Agent],
) -> Agent | None:
    interval_s = agent.interval_s
    start_s = clock() + schedule.phase(random()) * interval_s
    agent.tick()
    tick = 0
    due_s: float | None = None
    while True:
        if due_s is None:
            tick = schedule.following(tick, (clock() - start_s) / interval_s)
            due_s = start_s + schedule.due(tick, random()) * interval_s
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
