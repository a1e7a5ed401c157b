"""The interface of a control law: a pure step from memory and snapshot to memory and decision.

Pure: no I/O, no clock, no randomness. A law's memory is a value that the caller keeps (in a process, in
Redis, in a test).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, ClassVar

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.memory import Memory, Schema, empty, put_together
from steelyard_controller.laws.presentation import Presentation
from steelyard_controller.laws.snapshot import Batch, Floats, Snapshot, batch_of

Columns = Mapping[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A law's decisions for a batch, and its new memory: columns, m x k, and scalars, m x 1."""

    columns: Columns
    scalars: Columns
    decisions: list[Decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A control law with its parameters bound: the base of all laws.

    `bound` is the dataclass of the parameters: laws of one name with the same parameters are equal. `name` is
    the registry's, `schema` describes the memory, and `presentation` describes the law in words.
    """

    bound: Any
    name: str
    schema: Schema
    presentation: ClassVar[Presentation]

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters by name."""
        return _by_name(self.bound)

    def start(self) -> Memory:
        """Return the empty memory."""
        return empty(self.schema)

    def step(self, memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
        """Decide for one snapshot, a batch of one; return the new memory and the decision."""
        return self.step_batch([memory], batch_of([snapshot]))[0]

    def step_batch(self, memories: Sequence[Memory], batch: Batch) -> list[tuple[Memory, Decision]]:
        """Decide for the upstreams of a cleaned batch; results are those of single steps."""
        previous = put_together(memories, self.schema, batch.ids, batch.indicators)
        outcome = self.decide(previous.columns, previous.scalars, batch)
        after = replace(previous, columns=outcome.columns, scalars=outcome.scalars)
        return list(zip(after.all(), outcome.decisions, strict=True))

    def decide(self, previous: Columns, previous_scalars: Columns, snapshots: Batch) -> Outcome:
        """Return the decisions and the new memory from the previous one: columns and scalars.

        Shapes in the laws are those of one upstream; all arrays have the m upstreams as their first axis.
        """
        raise NotImplementedError


@lru_cache(maxsize=256)
def _by_name(bound: Any) -> Mapping[str, float]:  # noqa: ANN401
    return {each.name: getattr(bound, each.name) for each in fields(bound)}


def refuse_crossed_thresholds(low_load: float, high_load: float) -> None:
    """Raise ValueError unless L, the low-load threshold, is above H."""
    if low_load <= high_load:
        raise ValueError(f"parameter L is {low_load:g}; it must be above H ({high_load:g})")
