"""The saved state of an upstream as JSON, for a restart or the next leader. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from steelyard_protocol import peer_address, wire
from steelyard_protocol.typed_json import Count

VERSION = 1


class NewerVersion(Exception):
    """The state was written by a later version of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """The state of one upstream.

    memories           the laws' memories, by name, as JSON
    sender_clocks_ms   the latest time of each sender's clock: by kind (samples, reports), then by name; empty
                       if values are not signed; its JSON member is `told_ms`
    resolved           the last IP address of each host name among the peers
    """

    term: int
    generation: int
    memories: dict[str, Any]
    sender_clocks_ms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    resolved: dict[str, str] = field(default_factory=dict)


def encode(saved: SavedState) -> bytes:
    """Return the state as JSON."""
    document: dict[str, Any] = {
        "v": VERSION,
        "term": saved.term,
        "generation": saved.generation,
        "memories": saved.memories,
    }
    if saved.sender_clocks_ms:
        document["told_ms"] = saved.sender_clocks_ms
    if saved.resolved:
        document["resolved"] = saved.resolved
    return msgspec.json.encode(document)


def decode(value: bytes) -> SavedState | None:
    """Read a state; return None if it is damaged. Raise `NewerVersion` for a later version's."""
    try:
        # A new leader reads one for each upstream, and json would take twenty times as long.
        document = msgspec.json.decode(value)
        if not isinstance(document, dict):
            return None
        version = document.get("v")
        if isinstance(version, int) and version > VERSION:
            raise NewerVersion(
                f"Redis holds state of version {version}, but this program reads {VERSION} at most: run the "
                "newer controller"
            )
        memories = document.get("memories")
        return SavedState(
            term=msgspec.convert(document.get("term"), Count),
            generation=msgspec.convert(document.get("generation"), Count),
            memories=memories if isinstance(memories, dict) else {},
            sender_clocks_ms=_sender_clocks(document.get("told_ms")),
            resolved=_addresses(document.get("resolved")),
        )
    except (ValueError, RecursionError):
        return None


def _sender_clocks(document: object) -> dict[str, dict[str, int]]:
    """Return the readable part: without the rest fewer replays are found, but no law loses its memory."""
    kinds = document.items() if isinstance(document, dict) else ()
    return {
        kind: {name: ms for name, ms in clocks.items() if isinstance(ms, int) and 0 <= ms <= wire.MAX_INTEGER}
        for kind, clocks in kinds
        if isinstance(clocks, dict)
    }


def _addresses(document: object) -> dict[str, str]:
    """Return the readable part: other names are looked up again."""
    names = document.items() if isinstance(document, dict) else ()
    found = {name: _ip(text) for name, text in names if isinstance(text, str)}
    return {name: ip for name, ip in found.items() if ip is not None}


def _ip(text: str) -> str | None:
    try:
        return peer_address.split(peer_address.join(text, 1))[0]
    except ValueError:
        return None
