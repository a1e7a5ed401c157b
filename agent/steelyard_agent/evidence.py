"""Evidence: what a figure was made of, so that a person can check it against `top`.

Pure. A sample's utilizations *are* the values of its evidence, so that what is
explained cannot differ from what is sent:

    value = numerator / denominator, clipped to what the wire accepts
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A CPU figure above this comes from a broken reader; the wire format refuses it.
MAX_CPU_UTILIZATION = 64.0


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, such as 0.5 cores."""

    amount: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One figure. `indicator` is a column's name, or that of an extra that is shown and not sent.

    `value` is None where it could not be measured, and `note` then says why.
    `sources` are the files, limits and settings it came from.
    """

    indicator: str
    value: float | None
    numerator: Quantity | None = None
    denominator: Quantity | None = None
    sources: tuple[str, ...] = ()
    note: str = ""


def rate(before: float | None, after: float | None, interval_s: float) -> float | None:
    """Return the growth of a counter per second; None when it is unknown or went backwards."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / interval_s


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
    """Return the evidence of a figure that could not be measured."""
    return share(indicator, None, None, "", sources=sources, note=why)
