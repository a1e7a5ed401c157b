"""Which daemon or host a fault is about, when it begins (I/O: who leads is asked)."""

from collections.abc import Callable

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

Chosen = Callable[[Stage], str]
"""Gives the name of a daemon."""


def leader(stage: Stage) -> str:
    """Return the controller that leads. Raises ProgramError when none does."""
    name = stage.leader()
    if name is None:
        raise ProgramError("no controller leads")
    return name


def standby(stage: Stage) -> str:
    """Return a controller that does not lead. Raises ProgramError when there is none."""
    leading = leader(stage)
    others = [name for name in stage.names if name.startswith("controller-") and name != leading]
    if not others:
        raise ProgramError(f"there is no controller beside {leading}")
    return others[0]


def named(name: str) -> Chosen:
    """Return what chooses the daemon of this name."""
    return lambda _stage: name


def servers(stage: Stage) -> list[str]:
    """Return the names of all servers."""
    return [name for name in stage.names if name.startswith("server-")]
