"""What a generator is asked to do, and what it can be asked while it runs. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from steelyard_loadtest.lab.records import Outcome
from steelyard_loadtest.lab.scenario.model import Generator
from steelyard_loadtest.machine.found import Found

TIMEOUT_S = 30.0
"""How long any generator waits for an answer: siege's own default, and it was the paper's."""

FINISH_S = 15.0
"""How long requests under way at the end are waited for: to leave the slowest out would flatter the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One load: the whole URL, its level (users, connections or requests/s), and a folder for its files.

    `seconds` are counted, after `warm_up_s` of which nothing is.
    """

    generator: Generator
    url: str
    level: float
    seconds: float
    warm_up_s: float
    folder: Path
    found: Found


class Running(Protocol):
    """A load that was started. `poll` has to be called a few times a second: it moves the load on."""

    @property
    def began_s(self) -> float | None:
        """Return when the counted part began, on time.monotonic's clock; None before it has."""

    def poll(self) -> bool:
        """Say whether the load has ended."""

    def stop(self) -> None:
        """End it at once; there is no outcome then. Harmless when it has ended."""

    def outcome(self) -> Outcome:
        """Return what was measured, once `poll` said that it has ended. Raises ProgramError."""
