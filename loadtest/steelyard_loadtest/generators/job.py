"""A generator's job. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.scenario.definition import Generator

TIMEOUT_S = 30.0
"""Time-out of an answer in every generator: siege's default, and so the entropy paper's."""

FINISH_S = 15.0
"""Time for requests under way at the end: leaving out the slowest ones would flatter the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One load: the whole URL, its level (users, connections or requests/s), and a folder for its files.

    url        with several, separated by blanks, the open loop takes any for each request
    seconds    the counted time, after `warm_up_s` without counting
    finish_s   the wait for the last answers

    A generator's own process gets these as its arguments.
    """

    url: str
    level: float
    own_connections: bool = False
    """wrk: each request is on a connection of its own."""
    seconds: float
    warm_up_s: float
    timeout_s: float = TIMEOUT_S
    finish_s: float = FINISH_S
    folder: Path

    def arguments(self) -> list[str]:
        """Return it as command line arguments."""
        return [json.dumps({field.name: getattr(self, field.name) for field in fields(Task)}, default=str)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Task):
    """A load, the generator that makes it, and the installed programs.

    cuts_s: moments of the counted part at which it is cut into phases, if its requests are recorded.
    """

    generator: Generator
    programs: Programs
    cuts_s: Sequence[float] = ()


def parse_task(arguments: Sequence[str]) -> Task:
    """Return the task of `Task.arguments`. Raises ValueError."""
    task = json.loads(*arguments)
    return Task(**task | {"folder": Path(task["folder"])})
