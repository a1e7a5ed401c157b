"""What every balancer under test can do, whichever program it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from steelyard_loadtest.lab.rig import render
from steelyard_loadtest.lab.rig.render import Scene
from steelyard_loadtest.machine.process import Process

TEMPLATES = Path(__file__).with_name("templates")


class Front(Protocol):
    """A proxy; made, it has been started and need not answer yet."""

    @property
    def process(self) -> Process:
        """Return the process whose CPU time is the balancer's."""

    def wait(self) -> None:
        """Wait until it serves as it will go on to. Raises ProgramError."""

    def set_members(self, names: Sequence[str]) -> None:
        """Let these servers take part from now on. Raises ProgramError."""


def write(scene: Scene, members: Sequence[str]) -> Path:
    """Write the program's configuration with these servers; return its path."""
    name = render.TEMPLATES[scene.algorithm.program]
    path = scene.folder / name
    path.write_text(render.configuration(scene, members, (TEMPLATES / name).read_text(encoding="utf-8")))
    return path


def new_log(scene: Scene) -> Path:
    """Return the balancer's log, empty: what the last one said is not this one's."""
    path = scene.folder / f"{scene.algorithm.program}.log"
    path.write_text("")
    return path
