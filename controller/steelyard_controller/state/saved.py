"""The state that outlives a restart, as JSON. Pure."""

import json
from dataclasses import dataclass, field
from typing import Any

from steelyard_agent import wire

VERSION = 1


class Newer(Exception):
    """The state was written by a later version of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The state of one upstream; `memories` are the laws', by name, as JSON.

    `told_ms` is what the clocks of its senders told last: by kind (samples, reports), then by name. It is
    empty where values are not signed.
    """

    term: int
    generation: int
    memories: dict[str, Any]
    told_ms: dict[str, dict[str, int]] = field(default_factory=dict)


def encode(saved: Saved) -> bytes:
    """Return the state as JSON."""
    document: dict[str, Any] = {
        "v": VERSION,
        "term": saved.term,
        "generation": saved.generation,
        "memories": saved.memories,
    }
    if saved.told_ms:
        document["told_ms"] = saved.told_ms
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
            told_ms=_told_ms(document.get("told_ms")),
        )
    except (ValueError, RecursionError, wire.Bad):
        return None


def _told_ms(found: object) -> dict[str, dict[str, int]]:
    """Return what is whole of it: without the rest fewer replays are found, and no law forgets."""
    kinds = found.items() if isinstance(found, dict) else ()
    return {
        kind: {name: ms for name, ms in told.items() if isinstance(ms, int) and 0 <= ms <= wire.MAX_INTEGER}
        for kind, told in kinds
        if isinstance(told, dict)
    }
