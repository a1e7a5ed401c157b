"""The order of a run: a stage for the faults that can share it, one fault after the other (I/O)."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from steelyard_loadtest.chaos.judge import outcome
from steelyard_loadtest.chaos.model import Fault, Outcome
from steelyard_loadtest.chaos.records import Gathered
from steelyard_loadtest.chaos.trial import CALM_S, Scene, carry_out
from steelyard_loadtest.machine.errors import ProgramError

WELL_S = 30.0
"""After a fault that was recovered from, all is well at once."""


class Progress(Protocol):
    """Who is told how far it is."""

    def staging(self, *, faketime: bool) -> None:
        """Learn that a scene is set up."""

    def begin(self, fault: Fault) -> None:
        """Learn what is done now."""

    def end(self, result: Outcome) -> None:
        """Learn what came out."""


Open = Callable[[bool], contextlib.AbstractContextManager[Scene]]
"""Sets a scene up, for faults with faketime or for the others."""


def run(faults: Sequence[Fault], open_scene: Open, gathered: Gathered, progress: Progress) -> None:
    """Do every fault; what came out so far is always in `gathered`. Raises SetupError, ProgramError."""
    for faketime in (False, True):
        left = [fault for fault in faults if fault.faketime == faketime]
        while left:
            progress.staging(faketime=faketime)
            with open_scene(faketime) as scene:
                left = _on_scene(left, scene, gathered, progress)


def _on_scene(faults: Sequence[Fault], scene: Scene, gathered: Gathered, progress: Progress) -> list[Fault]:
    """Do faults until one leaves the scene unfit for the next; return those that are left."""
    for position, fault in enumerate(faults):
        try:
            scene.stage.wait_well(WELL_S)
        except ProgramError:
            if position == 0:
                raise  # a scene that is new, and not well: a newer one would not be
            return list(faults[position:])
        scene.sleep(CALM_S)
        progress.begin(fault)
        trial = carry_out(fault, scene)
        result = outcome(trial, scene.load.requests, scene.observer.looks)
        gathered.trials.append(trial)
        gathered.outcomes.append(result)
        progress.end(result)
        if trial.recovered_s is None or trial.wrong:
            return list(faults[position + 1 :])
    return []
