"""What every law does alike: tell its parameters, and start with nothing learnt. Pure."""

from collections.abc import Mapping
from typing import Any

from steelyard_controller.laws.memory import Memory, empty
from steelyard_controller.laws.parameters import as_mapping
from steelyard_controller.laws.schema import Schema


class BoundLaw:
    """A law with its parameters bound: `bound` is their dataclass, `schema` what its memory holds."""

    __slots__ = ()

    bound: Any
    schema: Schema

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters by name."""
        return as_mapping(self.bound)

    def start(self) -> Memory:
        """Return the empty memory."""
        return empty(self.schema)


def refuse_crossed_thresholds(low_load: float, high_load: float) -> None:
    """Raise ValueError unless L, the low-load threshold, is above H."""
    if low_load <= high_load:
        raise ValueError(f"parameter L is {low_load:g}; it must be above H ({high_load:g})")
