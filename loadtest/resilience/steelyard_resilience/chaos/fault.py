"""A fault, its bounds, and its outcome. Pure but for the actions on a stage.

Moments are of time.monotonic's clock, which all processes share.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from steelyard_loadtest.generators.tally import Request
from steelyard_protocol.traffic_report import RUNGS as RUNGS

from steelyard_resilience.stage.hosts import Front

Check = Callable[[], str | None]
"""Returns the problem found while the fault lasts; None if there is none."""

Lasting = Iterator[Check | None]
"""The return type of an action's function: it causes the fault, yields a check of it, and undoes it."""

Act = Callable[..., AbstractContextManager[Check | None]]
"""Causes a fault on its `stage` when it is entered, and undoes it when it is left."""

ACTIONS: dict[str, Act] = {}
"""The actions by their names in faults.toml."""


def action(function: Callable[..., Lasting]) -> Act:
    """Register a function as an action."""
    ACTIONS[function.__name__] = contextmanager(function)
    return ACTIONS[function.__name__]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The bounds of a fault: its highest permitted cost."""

    failed: int = 0
    """Failed requests; 0 if a healthy server exists and nothing in the requests' own way was killed."""
    worst_ms: float
    """Latency of the slowest request."""
    slow: int | None = None
    """Requests that take longer than half of worst_ms; None: any number."""
    recover_s: float
    """Time from the fault's end until all is well again."""
    rung: str = "fresh"
    """The worst rung of nginx's weights."""
    why: str = ""
    """The reason for each bound above the strictest (a timeout, a period), for the reader of the table."""

    def slackened(self, times: float) -> "Bound":
        """Return the bound for a machine that has other work: its times are longer, its counts the same."""
        return replace(self, worst_ms=times * self.worst_ms, recover_s=times * self.recover_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, alone."""

    name: str
    """Unique, as the table shows it."""
    group: str
    """A heading of the table."""
    act: Act
    lasts_s: float = 0.0
    """0 for an instant, which is over as soon as it begins."""
    bound: Bound
    quick: bool = False
    """Also part of the short form."""
    faketime: bool = False
    """Needs a stage with adjustable clocks."""
    front: Front = "nginx"
    """The load balancer of the requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The cluster from outside at one moment."""

    at_s: float
    rung: str | None
    """None: nginx did not answer."""
    not_well: str | None
    """The reason why not all is well; None if all is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one fault for its requests."""

    fault: str
    group: str
    sent: int
    failed: int
    kinds: Mapping[str, int]
    """Failed requests by kind."""
    worst_ms: float | None
    """The slowest correct answer; None if there were none."""
    slow: int
    """Correct answers that took longer than half of the bound's worst_ms."""
    recover_s: float | None
    """None if the cluster did not recover in time."""
    rung: str | None
    """The worst rung seen; None if nginx never answered."""
    bound: Bound
    broken: tuple[str, ...]
    """Each broken bound in words; empty: PASS."""

    @property
    def passed(self) -> bool:
        """Return whether every bound was kept."""
        return not self.broken


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The moments at which one fault began and ended, and the errors on the way."""

    fault: str
    group: str
    bound: Bound
    began_s: float
    undone_s: float
    """Recovery counts from here: the begin of the fault's end, or its beginning for an instant."""
    recovered_s: float | None
    """None if the cluster did not recover in time."""
    until_s: float
    """Requests due earlier belong to the fault."""
    wrong: tuple[str, ...]
    """Failed actions, and problems found by a check."""


@dataclass(slots=True)
class Gathered:
    """The results of a run so far, fault by fault. Each stage's requests and looks follow one another."""

    trials: list[Trial] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    interrupted: bool = False
