"""The audit log's entries: who changed what of an upstream, what it was before and what it is now.

Pure. An entry is a JSON object. It has the name of a token, never the token, and its size is bounded: of a
change of thousands of servers it has the first ones, and how many more there were.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steelyard_controller.declarations.declaration import Declaration, all_differences
from steelyard_controller.declarations.upstream import Peer

Kind = Literal["token", "person", "agent", "kubernetes", "file", "controller"]

MACHINES: frozenset[Kind] = frozenset({"agent", "kubernetes"})
"""Their changes come by themselves, and must not push out what people did: they have a log of their own."""

# Of each of the two logs. An entry has some 400 bytes; one of the largest change 50 kB.
KEPT = 10_000

MOST_CHANGES = 50
LONGEST_VALUE = 500
LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who made a change: its name and kind, the address that it came from, and who passed it on."""

    name: str
    kind: Kind
    address: str | None = None
    via: str | None = None

    def __str__(self) -> str:
        at, by = (f" at {self.address}" if self.address else ""), (f" by {self.via}" if self.via else "")
        return f"{self.name}{at}{by}"


CONTROLLER = Author(name="controller", kind="controller")
"""What nobody asked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log as it is stored, and whether a machine made the change."""

    by_machine: bool
    value: bytes


def entry(
    author: Author,
    upstream: str,
    before: Declaration | None,
    after: Declaration | None,
    *,
    at_ms: int,
    what: str | None = None,
) -> Entry:
    """Return the entry of a change; None is an upstream that is not declared."""
    changes = list(_changes(before, after))
    document = {
        "at_ms": at_ms,
        "who": author.name,
        "kind": author.kind,
        "address": author.address,
        "via": author.via,
        "upstream": upstream,
        "revision": None if after is None else after.revision,
        "what": _cut(all_differences(before, after) if what is None else what, LONGEST_TEXT),
        "changes": [
            {"field": field, "before": _bounded(old), "after": _bounded(new)}
            for field, old, new in changes[:MOST_CHANGES]
        ],
        "more": max(0, len(changes) - MOST_CHANGES),
    }
    value = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return Entry(author.kind in MACHINES, value)


def decoded(stored: Sequence[tuple[int, bytes]], upstream: str | None) -> list[dict[str, Any]]:
    """Return the entries of one upstream, or with None of all, each with its `id`; unreadable ones not."""
    entries = []
    for id, value in stored:
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and upstream in (None, document.get("upstream")):
            entries.append({**document, "id": id})
    return entries


def _changes(before: Declaration | None, after: Declaration | None) -> Iterator[tuple[str, Any, Any]]:
    old, new = (_fields(each) for each in (before, after))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)
    old_peers, new_peers = (_peers(each) for each in (before, after))
    for peer in {**old_peers, **new_peers}:
        was, now = old_peers.get(peer), new_peers.get(peer)
        if was is None or now is None:
            yield f"peers.{peer}", _shown(was), _shown(now)
        elif was != now:
            for name in Peer.model_fields:
                if getattr(was, name) != getattr(now, name):
                    yield f"peers.{peer}.{name}", getattr(was, name), getattr(now, name)
    old_pods, new_pods = (each.pods if each is not None else {} for each in (before, after))
    for peer in {**old_pods, **new_pods}:
        if old_pods.get(peer) != new_pods.get(peer):
            yield f"pods.{peer}", old_pods.get(peer), new_pods.get(peer)


def _fields(declared: Declaration | None) -> Mapping[str, Any]:
    return {} if declared is None else declared.upstream.model_dump(mode="json", exclude={"peers"})


def _peers(declared: Declaration | None) -> Mapping[str, Peer]:
    return {} if declared is None else {peer.id: peer for peer in declared.upstream.peers}


def _shown(peer: Peer | None) -> dict[str, Any] | None:
    return None if peer is None else peer.model_dump(mode="json", exclude={"id"}, exclude_defaults=True)


def _bounded(value: Any) -> Any:  # noqa: ANN401 - any JSON
    text = json.dumps(value, allow_nan=False)
    return value if len(text) <= LONGEST_VALUE else _cut(text, LONGEST_VALUE)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
