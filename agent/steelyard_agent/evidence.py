"""Evidence: the sources of a figure, so that a person can check it against `top`.

Pure. A sample's utilizations *are* the values of its evidence, so that the
explained and the sent figures cannot differ:

    value = numerator / denominator, clipped to the bounds of the wire format
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A CPU figure above this comes from a broken reader; the wire format refuses it.
MAX_CPU_UTILIZATION = 64.0


# A rate this many times the largest possible one is a counter's jump. Less than that is an interval that was
# measured too short: the agent was stopped between reading the clock and the counter.
IMPOSSIBLE_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, such as 0.5 cores."""

    amount: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One figure. `indicator` is the name of a column, or of an extra, which is shown and not sent.

    `value` is None if it could not be measured, and `note` is then the reason.
    `sources` are its files, limits and settings.
    """

    indicator: str
    value: float | None
    numerator: Quantity | None = None
    denominator: Quantity | None = None
    sources: tuple[str, ...] = ()
    note: str = ""


def rate(
    before: float | None, after: float | None, interval_s: float, most: float | None = None
) -> float | None:
    """Return the growth of a counter per second; None if it is unknown, went backwards, or is impossible.

    `most` is the largest possible rate, such as a machine's cores or a NIC's speed; None if there is none. A
    counter that jumps (a virtual machine that moved, lxcfs, a driver's reset) is no measurement.
    """
    if before is None or after is None or after < before:
        return None
    per_s = (after - before) / interval_s
    return None if most is not None and per_s > IMPOSSIBLE_RATIO * most else per_s


def share(
    indicator: str,
    amount: float | None,
    capacity: float | None,
    unit: str,
    *,
    high: float = 1.0,
    sources: Sequence[str | None] = (),
    note: str = "",
) -> Evidence:
    """Return `amount / capacity` within 0..`high` as evidence; None without both, never a guess."""
    known = amount is not None and capacity is not None and capacity > 0
    return Evidence(
        indicator=indicator,
        value=min(max(amount / capacity, 0.0), high) if known and amount is not None and capacity else None,
        numerator=None if amount is None else Quantity(amount, unit),
        denominator=None if capacity is None else Quantity(capacity, unit),
        sources=tuple(source for source in sources if source),
        note=note,
    )


def unmeasured(indicator: str, why: str, sources: Sequence[str | None] = ()) -> Evidence:
    """Return the evidence of a figure without a measurement."""
    return share(indicator, None, None, "", sources=sources, note=why)
