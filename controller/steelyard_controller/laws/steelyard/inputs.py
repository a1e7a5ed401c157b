"""The inputs of the steps of a tick. Pure."""

from dataclasses import dataclass

import numpy as np

from steelyard_controller.laws.decision_builder import baseline_weights
from steelyard_controller.laws.law import Columns
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.snapshot import SAMPLE_PATIENCE_TICKS, Batch, Bools, Floats
from steelyard_controller.laws.steelyard.steelyard_parameters import SCHEMA, WINDOW_S, SteelyardParameters

# A server is another one if it is younger than what is known of it by this many windows: samples may be late.
YOUNGER_WINDOWS = 10.0
# These figures belong to the address, and not to the server behind it.
KEPT = {"W", "Q", "missed", "seen_s", "sampleless_ticks", "load_ring", "count_ring", "in_flight_ring"}


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
    previous = _of_present_servers(snapshots, previous)
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


def _of_present_servers(snapshots: Batch, previous: Columns) -> Columns:
    """Return the memory without what was learnt of another server at the same address.

        known_s = min(known_s + T, up_s)        the server is another one if up_s + 10 T_1 < known_s + T

    With two agents at one address, known_s follows the younger server, so nothing is forgotten again.
    """
    known_s = previous["known_s"] + snapshots.tick_s
    younger = snapshots.up_s + YOUNGER_WINDOWS * max(snapshots.tick_s, WINDOW_S) < known_s
    previous = {**previous, "known_s": np.fmin(known_s, snapshots.up_s)}
    if not younger.any():
        return previous
    forgotten = {name: values.copy() for name, values in previous.items() if name not in KEPT | {"known_s"}}
    for name, values in forgotten.items():
        values[younger] = SCHEMA.columns[name].initial
    return {**previous, **forgotten}
