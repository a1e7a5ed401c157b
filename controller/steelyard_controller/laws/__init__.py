"""The control laws: snapshots in, weights out. Pure: no I/O, no clock, no settings.

One law a file; this is the table of them.
"""

from collections.abc import Mapping
from types import MappingProxyType

from steelyard_controller.laws import memory as _memory
from steelyard_controller.laws.cswrr import Cswrr, CswrrParameters
from steelyard_controller.laws.law import Law
from steelyard_controller.laws.memory import Memory
from steelyard_controller.laws.paper import Paper, PaperParameters
from steelyard_controller.laws.parameters import (
    Parameter,
    build_parameters,
    describe_parameters,
    with_low_above_high,
)
from steelyard_controller.laws.static import Static, StaticParameters
from steelyard_controller.laws.steelyard import Steelyard, SteelyardParameters

__all__ = ["NAMES", "Law", "Memory", "Parameter", "create", "decode_memory", "encode_memory", "parameters_of"]


_LAWS: Mapping[str, tuple[type, type]] = {
    "steelyard": (Steelyard, SteelyardParameters),
    "paper": (Paper, PaperParameters),
    "cswrr": (Cswrr, CswrrParameters),
    "static": (Static, StaticParameters),
}

NAMES: tuple[str, ...] = tuple(_LAWS)
"""Every law by name, the default first."""


def create(name: str, parameters: Mapping[str, float] = MappingProxyType({})) -> Law:
    """Return a law with its parameters set.

    Raises ValueError, naming what is wrong and the remedy, for an unknown law or parameter and
    for a value out of range.
    """
    if name not in _LAWS:
        raise ValueError(f"there is no law {name!r}; choose one of: {', '.join(NAMES)}")
    law, its_parameters = _LAWS[name]
    made: Law = law(
        bound=build_parameters(name, its_parameters, with_low_above_high(its_parameters, parameters))
    )
    return made


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a law, with units, bounds, defaults and reasons."""
    return describe_parameters(_LAWS[name][1])


def encode_memory(law_name: str, memory: Memory) -> dict[str, object]:
    """Return a law's memory as a JSON-able object, with the law's name and a version.

    Raises ValueError when the memory is another law's: the caller's bug.
    """
    if memory.law != law_name:
        raise ValueError(f"this is the memory of law {memory.law}, not of {law_name}")
    return _memory.encode(memory)


def decode_memory(law: Law | str, document: object) -> Memory | None:
    """Read what `encode_memory` wrote; None when it is another law's, another version's or damaged."""
    name = law if isinstance(law, str) else law.name
    if name not in _LAWS:
        return None
    return _memory.decode(create(name).schema, document)
