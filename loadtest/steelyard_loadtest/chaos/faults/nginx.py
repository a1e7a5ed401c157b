"""An nginx worker killed, stopped and ended; nginx reloaded (I/O by the stage)."""

import os
import signal
import time
from typing import cast

from steelyard_loadtest.chaos.faults import bounds
from steelyard_loadtest.chaos.faults.processes import nothing
from steelyard_loadtest.chaos.model import Bound, Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

IN_FLIGHT = 4
"""Requests that one of two workers has at a moment: 200/s for 10 ms are 2 in all, but in bunches."""

BETWEEN_RELOADS_S = 0.5
"""Shorter than a reload takes here, so that workers of three configurations live side by side."""


def _a_worker(stage: Stage) -> int:
    workers = stage.daemon("nginx").children()
    if not workers:
        raise ProgramError("nginx has no workers")
    return workers[0]


def _kill(stage: Stage, _notes: dict[str, object]) -> None:
    os.kill(_a_worker(stage), signal.SIGKILL)


def _quit(stage: Stage, _notes: dict[str, object]) -> None:
    os.kill(_a_worker(stage), signal.SIGQUIT)


def _pause(stage: Stage, notes: dict[str, object]) -> None:
    notes["worker"] = worker = _a_worker(stage)
    os.kill(worker, signal.SIGSTOP)


def _resume(_stage: Stage, notes: dict[str, object]) -> None:
    os.kill(cast(int, notes["worker"]), signal.SIGCONT)


def _reload(stage: Stage, _notes: dict[str, object]) -> None:
    stage.daemon("nginx").signal(signal.SIGHUP)


def _reload_thrice(stage: Stage, notes: dict[str, object]) -> None:
    for _ in range(2):
        _reload(stage, notes)
        time.sleep(BETWEEN_RELOADS_S)
    _reload(stage, notes)


def faults() -> list[Fault]:
    """Return the faults of nginx."""
    group = "nginx"
    return [
        Fault(
            name="nginx worker killed", group=group, begin=_kill, end=nothing, lasts_s=0.0, quick=True,
            bound=Bound(
                failed=IN_FLIGHT, worst_ms=bounds.CALM_MS, recover_s=bounds.ANSWERS_AGAIN_S,
                why="what that worker had in flight is lost with it; the other one has what it was at done "
                "(fetching, reporting) within 2 s",
            ),
        ),
        Fault(
            name="nginx worker paused", group=group, begin=_pause, end=_resume, lasts_s=bounds.PAUSE_S,
            bound=Bound(
                worst_ms=1000 * bounds.PAUSE_S + bounds.CALM_MS, recover_s=bounds.TICKS_S,
                why="what it had taken on waits for it; the other worker takes all that is new",
            ),
        ),
        Fault(
            name="nginx worker ended", group=group, begin=_quit, end=nothing, lasts_s=0.0,
            bound=bounds.untouched(bounds.ANSWERS_AGAIN_S, "ends what it has begun; another one starts"),
        ),
        Fault(
            name="nginx reload", group=group, begin=_reload, end=nothing, lasts_s=0.0, quick=True,
            bound=bounds.untouched(bounds.ANSWERS_AGAIN_S, "old workers end what they have begun"),
        ),
        Fault(
            name="nginx reload, three in a row", group=group, begin=_reload_thrice, end=nothing, lasts_s=0.0,
            bound=bounds.untouched(
                2 * BETWEEN_RELOADS_S + bounds.ANSWERS_AGAIN_S, "old workers end what they have begun"
            ),
        ),
    ]  # fmt: skip
