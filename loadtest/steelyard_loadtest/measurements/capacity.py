"""The capacity of a scenario's servers: several short measurements, and their median. Pure.

The rate of a level is level * capacity. So trials whose capacities differ have different loads, and cannot be
compared.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

RATE_DIGITS = 1
LOWEST_RATE_PER_S = 1.0

ALIKE = 0.02
"""Rates are rounded to a tenth, which is 0.7 % at 15 requests/s. Trials that differ by more had different
capacities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The capacity in requests a second.

    measured_per_s  the measurements, of which the median counts
    by_trials       nothing was kept, so they are the rates of the trials over their levels
    """

    measured_per_s: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)]
    by_trials: bool = False

    @property
    def per_s(self) -> float:
        """Return the median."""
        return statistics.median(self.measured_per_s)

    @property
    def spread(self) -> float:
        """Return the distance of the lowest and the highest as a part of the median."""
        return (max(self.measured_per_s) - min(self.measured_per_s)) / self.per_s

    @property
    def differs(self) -> bool:
        """Return whether trials with different capacities are beside each other."""
        return self.by_trials and self.spread > ALIKE

    def rates(self, levels: Sequence[float]) -> dict[float, float]:
        """Return the rate of each level, which is a part of the capacity."""
        return {level: max(round(level * self.per_s, RATE_DIGITS), LOWEST_RATE_PER_S) for level in levels}

    def __str__(self) -> str:
        """Write it with its spread."""
        ends = f"{min(self.measured_per_s):.0f} to {max(self.measured_per_s):.0f}"
        if self.by_trials:
            of_several = f", which had different ones ({ends}) and cannot be compared" if self.differs else ""
            return f"{self.per_s:.0f} requests/s, by the rates of the trials{of_several}"
        return f"{self.per_s:.0f} requests/s, the median of {len(self.measured_per_s)} measurements ({ends})"


def of_trials(rates_per_s: Iterable[tuple[float, float]]) -> Capacity | None:
    """Return the capacity of trials, each given by its level and its rate; None without trials."""
    each = tuple(rate / level for level, rate in rates_per_s if rate > 0)
    return Capacity(measured_per_s=each, by_trials=True) if each else None
