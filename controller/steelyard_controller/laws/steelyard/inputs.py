"""The inputs of the steps of a tick. Pure."""

from dataclasses import dataclass

from steelyard_controller.laws.decision_builder import baseline_weights
from steelyard_controller.laws.law import Columns
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import SAMPLE_PATIENCE_TICKS, Batch, Bools, Floats
from steelyard_controller.laws.steelyard.steelyard_parameters import WINDOW_S, SteelyardParameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the steps of a tick.

    previous, previous_scalars   memory of each peer and of each upstream, by the names of the schema
    total        S
    baseline     k, W_S, which sum to S
    yardsticks   k, peers with which others are compared: in service, and not leaving
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
        """Return T_1 = max(T, 1 s), the length of a window: shorter ticks are added up to one second."""
        return max(self.snapshots.tick_s, WINDOW_S)

    @property
    def window_part(self) -> float:
        """Return T/T_1, the length of a tick in windows."""
        return self.snapshots.tick_s / self.window_s

    @property
    def patience_ticks(self) -> float:
        """Return the life of the last known figures in ticks: three windows."""
        return SAMPLE_PATIENCE_TICKS / self.window_part


def inputs_of(
    snapshots: Batch, previous: Columns, previous_scalars: Columns, parameters: SteelyardParameters
) -> Inputs:
    """Return the inputs of the steps."""
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
