"""What every control law is: a pure step from memory and snapshot to memory and decision.

Pure: no I/O, no clock, no randomness. What a law remembers is its `Memory`, a
value; who holds it (a process, Redis, a test) is none of the law's business.
"""

from collections.abc import Mapping
from typing import Protocol

from steelyard_controller.decision import Decision
from steelyard_controller.laws.memory import Memory
from steelyard_controller.laws.schema import Schema
from steelyard_controller.snapshot import Snapshot


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
