"""A fault, what it may cost at the most, and what it did cost. Pure but for the actions on a stage.

Moments are time.monotonic's, which all processes share.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from steelyard_loadtest.generators.tally import Request
from steelyard_protocol.traffic_report import RUNGS as RUNGS

from steelyard_resilience.stage.hosts import Front

Check = Callable[[], str | None]
"""Says what is not as it must be while the fault lasts; None when all is."""

Lasting = Iterator[Check | None]
"""What an action's function returns: it does it, yields what else must be true meanwhile, and undoes it."""

Act = Callable[..., AbstractContextManager[Check | None]]
"""Does it to the `stage` that it is given when it is entered, and undoes it in the end."""

ACTIONS: dict[str, Act] = {}
"""By the names that faults.toml has for them."""


def action(function: Callable[..., Lasting]) -> Act:
    """Make a function an action."""
    ACTIONS[function.__name__] = contextmanager(function)
    return ACTIONS[function.__name__]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a fault may cost.

    failed: requests; 0 wherever a healthy server exists and nothing in the requests' own way was killed.
    worst_ms: the latency of the slowest request. slow: requests that take longer than half of it; None: any
    number. recover_s: until everything is well again, counted from the fault's end. rung: the worst that
    nginx's weights may come to rest on. why: the reason for whatever is not strictest (which timeout, which
    period), for the reader of the table.
    """

    failed: int = 0
    worst_ms: float
    slow: int | None = None
    recover_s: float
    rung: str = "fresh"
    why: str = ""

    def slackened(self, times: float) -> "Bound":
        """Return the bound for a machine that has other work: what is no time stays as it is."""
        return replace(self, worst_ms=times * self.worst_ms, recover_s=times * self.recover_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong, alone.

    name: unique, as the table shows it. group: a heading of the table. lasts_s: 0 for what happens at a
    moment, and is over with its beginning. quick: also in the short form. faketime: needs a stage whose
    clocks can be stepped. front: the load balancer through which the requests go.
    """

    name: str
    group: str
    act: Act
    lasts_s: float = 0.0
    bound: Bound
    quick: bool = False
    faketime: bool = False
    front: Front = "nginx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What could be seen from outside at one moment."""

    at_s: float
    rung: str | None
    """None: nginx did not answer."""
    not_well: str | None
    """Why all is not well; None when it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the requests of one fault.

    kinds: failed requests by kind. worst_ms: of the requests that were answered as wanted; None when there
    were none. slow: those of them that took longer than half of the bound's worst_ms. recover_s: None
    when it did not recover in time. rung: the worst seen; None when nginx never answered. broken: each bound
    that was not kept, in words; empty: PASS.
    """

    fault: str
    group: str
    sent: int
    failed: int
    kinds: Mapping[str, int]
    worst_ms: float | None
    slow: int
    recover_s: float | None
    rung: str | None
    bound: Bound
    broken: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Tell whether every bound was kept."""
        return not self.broken


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


@dataclass(slots=True)
class Gathered:
    """What a run has so far; it grows fault by fault. Each stage's requests and looks follow one another."""

    trials: list[Trial] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    interrupted: bool = False
