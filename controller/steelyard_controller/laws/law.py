"""The interface of a control law: a pure step from memory and snapshot to memory and decision.

Pure: no I/O, no clock, no randomness. A law's memory is a value; the caller
keeps it (in a process, in Redis, in a test).
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Protocol

from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.memory import Memory, Schema, empty
from steelyard_controller.laws.snapshot import Snapshot


class Law(Protocol):
    """A control law with its parameters bound."""

    @property
    def name(self) -> str:
        """The law's name, as in the registry."""

    @property
    def schema(self) -> Schema:
        """What the law's memory holds."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """The law's parameters by name."""

    def start(self) -> Memory:
        """Return the empty memory."""

    def step(self, memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
        """Decide for one snapshot; return what to remember, and the decision."""


class BoundLaw:
    """The base of all laws: `bound` is the dataclass of the parameters, `schema` describes the memory."""

    __slots__ = ()

    bound: Any
    schema: Schema

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters by name."""
        return {each.name: getattr(self.bound, each.name) for each in fields(self.bound)}

    def start(self) -> Memory:
        """Return the empty memory."""
        return empty(self.schema)


def refuse_crossed_thresholds(low_load: float, high_load: float) -> None:
    """Raise ValueError unless L, the low-load threshold, is above H."""
    if low_load <= high_load:
        raise ValueError(f"parameter L is {low_load:g}; it must be above H ({high_load:g})")
