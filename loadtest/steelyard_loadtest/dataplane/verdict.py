"""What the figures are held against. Pure.

Every target is a ratio of medians of one run, so that it means the same on a
slow machine as on a fast one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard_loadtest.dataplane.contenders import BASE, CONTENDERS
from steelyard_loadtest.dataplane.summary import Change, Row, find

MANY, FEW = 2000, 3
OURS = tuple(contender.name for contender in CONTENDERS if contender.program == "steelyard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One target for one of our pickers: what it came to, and what it may be at most."""

    target: str
    contender: str
    value: float
    bound: float

    @property
    def met(self) -> bool:
        """Whether it is within the bound."""
        return self.value <= self.bound


def verdicts(rows: Sequence[Row], changes: Sequence[Change]) -> list[Verdict]:
    """Judge whatever was measured; what was not has no verdict."""
    found = []
    for target, bound, count, other, other_count in (
        ("CPU at 2000 servers / nginx SWRR", 0.40, MANY, BASE, MANY),
        ("CPU at 2000 servers / HAProxy roundrobin", 1.15, MANY, "haproxy-roundrobin", MANY),
        ("CPU at 3 servers / nginx SWRR", 1.15, FEW, BASE, FEW),
        ("CPU at 2000 servers / its own at 3", 1.25, MANY, None, FEW),
    ):
        for name in OURS:
            over, under = _cpu_us(rows, name, count), _cpu_us(rows, other or name, other_count)
            if over is not None and under:
                found.append(Verdict(target=target, contender=name, value=over / under, bound=bound))
    for change in changes:
        if change.contender in OURS and change.peers == MANY:
            found.append(
                Verdict(
                    target="p99 in the 5 s after a change of all 2000 weights / before",
                    contender=change.contender,
                    value=change.ratio,
                    bound=2.0,
                )
            )
    return found


def _cpu_us(rows: Sequence[Row], contender: str, peers: int) -> float | None:
    row = find(rows, contender, peers)
    return row.cpu_us.median if row and row.cpu_us else None
