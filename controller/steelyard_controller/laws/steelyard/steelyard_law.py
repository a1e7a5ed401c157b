"""The law `steelyard`: the weight of a peer is an estimate of its capacity.

Pure. It has the paper's indicators, entropy weights, thresholds and decay, made stable. `decide` has the
steps in the order and with the numbers of docs/control-law.md. Each step returns a record, and has its
formula.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from steelyard_controller.laws.decision_builder import build_decisions
from steelyard_controller.laws.law import Columns, Law, Outcome, refuse_crossed_thresholds
from steelyard_controller.laws.memory import Schema
from steelyard_controller.laws.presentation import Presentation
from steelyard_controller.laws.snapshot import Batch
from steelyard_controller.laws.steelyard.busyness import measure_busyness
from steelyard_controller.laws.steelyard.capacity_estimate import estimate_capacity
from steelyard_controller.laws.steelyard.change_detection import detect_change
from steelyard_controller.laws.steelyard.evidence import recall_evidence
from steelyard_controller.laws.steelyard.factors import (
    bound_weights,
    weigh_backlog,
    weigh_failures,
    weigh_slowness,
)
from steelyard_controller.laws.steelyard.in_flight import separate_waiting
from steelyard_controller.laws.steelyard.inputs import Inputs, inputs_of
from steelyard_controller.laws.steelyard.own_load import attribute_load
from steelyard_controller.laws.steelyard.paired_window import pair_window
from steelyard_controller.laws.steelyard.slow_start import weigh_slow_start
from steelyard_controller.laws.steelyard.steelyard_parameters import SCHEMA, SteelyardParameters
from steelyard_controller.laws.steelyard.steelyard_presentation import PRESENTATION
from steelyard_controller.laws.steelyard.traffic import count_traffic
from steelyard_controller.laws.steelyard.workings import Workings


@dataclass(frozen=True, slots=True, kw_only=True)
class Steelyard(Law):
    """The law `steelyard` with its parameters bound. Raises ValueError unless L > H."""

    bound: SteelyardParameters = field(default_factory=SteelyardParameters)
    name: str = "steelyard"
    schema: Schema = SCHEMA
    presentation: ClassVar[Presentation] = PRESENTATION

    def __post_init__(self) -> None:
        refuse_crossed_thresholds(self.bound.L, self.bound.H)

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Return the weights by the steps of docs/control-law.md."""
        inputs = inputs_of(snapshots, previous, previous_scalars, self.bound)
        # 1. How busy
        busyness = measure_busyness(inputs)
        # 2. How much was done
        traffic = count_traffic(inputs)
        # 3. Pair
        window = pair_window(inputs, busyness, traffic)
        # 4. What waits?
        in_flight = separate_waiting(inputs, traffic, window)
        # 5. Whose load is it?
        own = attribute_load(inputs, recall_evidence(inputs, busyness), window, traffic, in_flight)
        # 6. Change
        change = detect_change(inputs, busyness, window, in_flight, own)
        # 7. What does a request cost?
        estimate = estimate_capacity(inputs, busyness, in_flight, own, change)
        # 8. Backlog
        backlog = weigh_backlog(inputs, traffic, in_flight, estimate)
        # 9. Slowness
        slowness = weigh_slowness(inputs, window, traffic)
        # 10. Failures
        failures = weigh_failures(inputs, traffic)
        # 11. Slow start
        slow_start = weigh_slow_start(inputs, busyness, traffic, in_flight, estimate.capacity)
        # 12. Bounds
        weight = estimate.capacity * backlog.factor * slowness.factor * failures.factor * slow_start.factor
        bounded = bound_weights(inputs, weight)
        return self._published(
            inputs,
            Workings(
                busyness=busyness,
                traffic=traffic,
                window=window,
                in_flight=in_flight,
                own=own,
                change=change,
                estimate=estimate,
                backlog=backlog,
                slowness=slowness,
                failures=failures,
                slow_start=slow_start,
                bounded=bounded,
            ),
        )

    def _published(self, inputs: Inputs, workings: Workings) -> Outcome:
        weights, decisions = build_decisions(
            law=self.name,
            snapshots=inputs.snapshots,
            raw=workings.bounded.weights,
            baseline=inputs.baseline,
            parameters=self.parameters,
            score=workings.busyness.score,
            alert=workings.busyness.alert,
            entropy_weights=workings.busyness.by_indicator.weights,
            capacity_estimate=workings.estimate.capacity,
            weight_before=inputs.previous["W"],
            by_indicator=workings.by_indicator(),
            columns=workings.explained(inputs),
        )
        return Outcome(
            columns=workings.columns(inputs, weights), scalars=workings.scalars(inputs), decisions=decisions
        )
