"""The state that outlives a restart, as JSON. Pure."""

import json
from dataclasses import dataclass
from typing import Any

from steelyard_agent import wire

VERSION = 1


class Newer(Exception):
    """The state was written by a later version of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The state of one upstream; `memories` are the laws', by name, as JSON."""

    term: int
    generation: int
    memories: dict[str, Any]


def encode(saved: Saved) -> bytes:
    """Return the state as JSON."""
    document = {"v": VERSION, "term": saved.term, "generation": saved.generation, "memories": saved.memories}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def decode(value: bytes) -> Saved | None:
    """Read a state; None when it is damaged. Raise `Newer` for a later version's."""
    try:
        document = json.loads(value)
        if not isinstance(document, dict):
            return None
        version = document.get("v")
        if isinstance(version, int) and version > VERSION:
            raise Newer(
                f"Redis holds state of version {version}, this program knows {VERSION}: "
                "run the newer controller"
            )
        memories = document.get("memories")
        return Saved(
            term=wire.integer(document, "term"),
            generation=wire.integer(document, "generation"),
            memories=memories if isinstance(memories, dict) else {},
        )
    except (ValueError, RecursionError, wire.Bad):
        return None
