"""A fault, what it may cost at the most, and what it did cost. Pure but for the actions on a stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard_loadtest.stage.stage import Stage

RUNGS = ("fresh", "hold", "drift", "saved", "bootstrap", "none")
"""What nginx's weights may rest on, from the best to the worst (docs/architecture.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a fault may cost.

    failed: requests; 0 wherever a healthy server exists and nothing in the requests' own way was killed.
    worst_ms: the latency of the slowest request. recover_s: until everything is well again, counted from the
    fault's end. rung: the worst that nginx's weights may come to rest on. why: the reason for whatever is not
    strictest (which timeout, which period), for the reader of the table.
    """

    failed: int = 0
    worst_ms: float
    recover_s: float
    rung: str = "fresh"
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong, alone.

    name: unique, as the table shows it. group: a heading of the table. begin, end: do and undo it; `begin`
    may leave notes in the mapping that `end` gets. lasts_s: 0 for what happens at a moment. quick: also in
    the short form. faketime: needs a stage whose clocks can be stepped. check: what else must be true while
    the fault lasts, asked just before its end: the reason why it is not, or None.
    """

    name: str
    group: str
    begin: "Callable[[Stage, dict[str, object]], None]"
    end: "Callable[[Stage, dict[str, object]], None]"
    lasts_s: float
    bound: Bound
    quick: bool = False
    faketime: bool = False
    check: "Callable[[Stage, Mapping[str, object]], str | None] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What could be seen from outside at one moment; at_s is time.monotonic's."""

    at_s: float
    rung: str | None
    """None: nginx did not answer."""
    not_well: str | None
    """Why all is not well; None when it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the requests of one fault.

    kinds: failed requests by kind. p50_ms, worst_ms: of the requests that were answered as wanted; None when
    there were none. recover_s: None when it did not recover in time. rung: the worst seen; None when nginx
    never answered. broken: each bound that was not kept, in words; empty: PASS.
    """

    fault: str
    group: str
    sent: int
    failed: int
    kinds: Mapping[str, int]
    p50_ms: float | None
    worst_ms: float | None
    recover_s: float | None
    rung: str | None
    bound: Bound
    broken: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Tell whether every bound was kept."""
        return not self.broken
