"""What the steps of a tick are given. Pure."""

from dataclasses import dataclass

from steelyard_controller.laws.decision_builder import baseline_weights
from steelyard_controller.laws.law import Columns
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import SAMPLE_PATIENCE_TICKS, Batch, Bools, Floats
from steelyard_controller.laws.steelyard.steelyard_parameters import WINDOW_S, SteelyardParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the steps of a tick are given.

    previous, previous_scalars   what the last tick remembered of each peer and of each upstream, by the
                 names of the schema
    total        S
    baseline     k, W_S, summing to S
    yardsticks   k, the peers that others are compared with: in service, and not leaving
    """

    snapshots: Batch
    previous: Columns
    previous_scalars: Columns
    parameters: SteelyardParameters
    total: int
    baseline: Floats
    yardsticks: Bools

    @property
    def window_s(self) -> float:
        """Return max(T, 1 s): what is shorter than that is within a window, however short the ticks are."""
        return max(self.snapshots.tick_s, WINDOW_S)

    @property
    def window_part(self) -> float:
        """Return the part of a window that a tick is."""
        return self.snapshots.tick_s / self.window_s

    @property
    def patience_ticks(self) -> float:
        """Return for how many ticks what was known last is believed: those of three windows."""
        return SAMPLE_PATIENCE_TICKS / self.window_part


def inputs_of(
    snapshots: Batch, previous: Columns, previous_scalars: Columns, parameters: SteelyardParameters
) -> Inputs:
    """Return what the steps are given."""
    total = law_total(parameters.S, snapshots.k)
    return Inputs(
        snapshots=snapshots,
        previous=previous,
        previous_scalars=previous_scalars,
        parameters=parameters,
        total=total,
        baseline=baseline_weights(snapshots, total),
        yardsticks=snapshots.eligible & ~snapshots.leaving,
    )
