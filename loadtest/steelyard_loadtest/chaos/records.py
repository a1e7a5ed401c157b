"""What a run with faults leaves. Pure. Moments are time.monotonic's, which all processes share."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steelyard_loadtest.chaos.model import Bound, Look, Outcome
from steelyard_loadtest.lab.generators.tally import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """When one fault was done and undone, and what was wrong with that.

    undone_s: from when on it could recover: when its end began, or its beginning for one of a moment.
    recovered_s: None: not while anybody waited. until_s: requests due before it are the fault's.
    wrong: what could not be done, and what a check found.
    """

    fault: str
    group: str
    bound: Bound
    began_s: float
    undone_s: float
    recovered_s: float | None
    until_s: float
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A request that failed in the calm before a fault; `before`: that fault, "" for the end of a stage."""

    before: str
    request: Request


@dataclass(slots=True)
class Gathered:
    """What a run has so far; it grows fault by fault. Each stage's requests and looks follow one another."""

    trials: list[Trial] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    interrupted: bool = False

    def keep(self, requests: Sequence[Request], looks: Sequence[Look]) -> None:
        """Add what a stage saw until its end."""
        self.requests += requests
        self.looks += looks
