"""The control laws: snapshots in, weights out. Pure: no I/O, no clock, no settings.

Each law is a file with its parameters, schema and presentation; the registry is here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any

from steelyard_controller.laws import stored_memory as _stored_memory
from steelyard_controller.laws.cswrr import Cswrr
from steelyard_controller.laws.law import Law
from steelyard_controller.laws.memory import Memory
from steelyard_controller.laws.paper import Paper
from steelyard_controller.laws.parameters import (
    Parameter,
    build_parameters,
    describe_parameters,
    with_low_above_high,
)
from steelyard_controller.laws.presentation import Presentation
from steelyard_controller.laws.static import Static
from steelyard_controller.laws.steelyard import Steelyard

__all__ = [
    "NAMES",
    "Law",
    "Memory",
    "Parameter",
    "create",
    "decode_memories",
    "decode_memory",
    "describe",
    "encode_memories",
    "encode_memory",
    "parameters_of",
    "presentation_of",
]


_LAWS: Mapping[str, Law] = {law.name: law for law in (Steelyard(), Paper(), Cswrr(), Static())}

NAMES: tuple[str, ...] = tuple(_LAWS)
"""Every law by name, the default first."""


def create(name: str, parameters: Mapping[str, float] = MappingProxyType({})) -> Law:
    """Return a law with its parameters set.

    Raises ValueError with the fault and the remedy for an unknown law or parameter and for a value out of
    range.
    """
    if name not in _LAWS:
        raise ValueError(f"there is no law {name!r}; choose one of: {', '.join(NAMES)}")
    law = _LAWS[name]
    if not parameters:
        return law  # The usual case, at thousands of upstreams.
    kind = type(law.bound)
    return replace(law, bound=build_parameters(name, kind, with_low_above_high(kind, parameters)))


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """Return the parameters of a law, with units, bounds, defaults and reasons."""
    return describe_parameters(type(_LAWS[name].bound))


def presentation_of(name: str) -> Presentation:
    """Return the presentation of a law: its sentence, colour, steps and reasons."""
    return _LAWS[name].presentation


def describe() -> dict[str, Any]:
    """Return every law with its presentation and parameters, ready for JSON."""
    return {
        "laws": [
            {"name": name}
            | law.presentation.to_dict()
            | {"parameters": [asdict(each) for each in parameters_of(name)]}
            for name, law in _LAWS.items()
        ]
    }


def encode_memory(law_name: str, memory: Memory) -> dict[str, object]:
    """Return a law's memory, ready for JSON, with the law's name and a version.

    Raises ValueError for the memory of another law, a bug of the caller.
    """
    return encode_memories([(law_name, memory)])[0]


def encode_memories(memories: Sequence[tuple[str, Memory]]) -> list[dict[str, object]]:
    """Return the `encode_memory` of each law and memory."""
    for law_name, memory in memories:
        if memory.law != law_name:
            raise ValueError(f"this is the memory of law {memory.law}, not of {law_name}")
    return _stored_memory.encode_all([memory for _, memory in memories])


def decode_memory(law: Law | str, document: object) -> Memory | None:
    """Read a memory from `encode_memory`; None if it is of another law or version, or damaged."""
    name = law if isinstance(law, str) else law.name
    if name not in _LAWS:
        return None
    return _stored_memory.decode(_LAWS[name].schema, document)


def decode_memories(memories: Sequence[tuple[Law, object]]) -> list[Memory | None]:
    """Return the `decode_memory` of each law and document."""
    decoded: list[Memory | None] = [None] * len(memories)
    for name, law in _LAWS.items():
        places = [place for place, (its, _) in enumerate(memories) if its.name == name]
        documents = [memories[place][1] for place in places]
        for place, memory in zip(places, _stored_memory.decode_all(law.schema, documents), strict=True):
            decoded[place] = memory
    return decoded
