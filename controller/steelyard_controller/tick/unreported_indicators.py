"""The declared indicators that no sample has, for many ticks in a row. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from steelyard_controller.laws.snapshot import Snapshot, measured_rows

# A declared indicator is missing after this many ticks with samples but without it. An agent takes less to
# read an indicator anew.
UNREPORTED_TICKS = 10


@dataclass(frozen=True, slots=True)
class UnreportedIndicators:
    """The number of ticks with samples for which each declared indicator has been missing from all."""

    ticks: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Return the indicators that have been missing for `UNREPORTED_TICKS`."""
        return [name for name, ticks in self.ticks.items() if ticks >= UNREPORTED_TICKS]

    def after(self, snapshot: Snapshot, *, are_declared: bool, sampled: bool) -> "UnreportedIndicators":
        """Return the counts after a tick; `sampled` tells whether it had new samples."""
        if not are_declared:
            return UnreportedIndicators() if self.ticks else self
        if not (sampled or measured_rows(snapshot.utilization).any()):
            return self
        return UnreportedIndicators(
            {
                name: self.ticks.get(name, 0) + 1 if np.isnan(column).all() else 0
                for name, column in zip(snapshot.indicators, snapshot.utilization.T, strict=True)
            }
        )
