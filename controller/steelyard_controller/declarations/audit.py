"""The audit log's entries: each change of an upstream, with its author and the fields before and after.

Pure. An entry is a JSON object. It has the name of a token, never the token itself. Its size is bounded: for
a change of thousands of servers, it has the first ones and the number of the others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steelyard_controller.declarations.declaration import UNCHANGED, Declaration, all_differences

Kind = Literal["token", "person", "agent", "kubernetes", "file", "controller"]

Origin = Literal["people", "machines", "files"]

LOGS: tuple[Origin, ...] = ("people", "machines", "files")
"""The logs, each with its own bound, so that no origin pushes out the entries of another one.

A rollout of thousands of pods, or an edited file of thousands of upstreams, is as many entries at once.
"""

# `controller` restores a declaration after a person's change that the store did not confirm.
_ORIGIN_OF: Mapping[Kind, Origin] = {
    "token": "people",
    "person": "people",
    "controller": "people",
    "agent": "machines",
    "kubernetes": "machines",
    "file": "files",
}

# The length of each log. An entry has some 400 bytes; one of the largest change has 50 kB.
KEPT_ENTRIES = 10_000

MOST_CHANGES = 50
LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a change: its name and kind, its address, and the program that passed it on."""

    name: str
    kind: Kind
    address: str | None = None
    via: str | None = None

    def __str__(self) -> str:
        at, by = (f" at {self.address}" if self.address else ""), (f" by {self.via}" if self.via else "")
        return f"{self.name}{at}{by}"


CONTROLLER = Author(name="controller", kind="controller")


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored entry, and the place of its log among `LOGS`."""

    log: int
    value: bytes


def entry(
    author: Author,
    upstream: str,
    before: Declaration | None,
    after: Declaration | None,
    *,
    at_ms: int,
    what: str | None = None,
) -> Entry | None:
    """Return the entry of a change; None: nothing changed. A declaration None is an undeclared upstream."""
    what = all_differences(before, after) if what is None else what
    if what == UNCHANGED:
        return None
    old, new = _fields(before, after), _fields(after, before)
    changes = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    document = {
        "at_ms": at_ms,
        "who": author.name,
        "kind": author.kind,
        "address": author.address,
        "via": author.via,
        "upstream": upstream,
        "revision": None if after is None else after.revision,
        "what": _cut(what),
        "changes": [
            {"field": name, "before": _bounded(old.get(name)), "after": _bounded(new.get(name))}
            for name in changes[:MOST_CHANGES]
        ],
        "more": max(0, len(changes) - MOST_CHANGES),
    }
    value = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    return Entry(LOGS.index(_ORIGIN_OF[author.kind]), value)


def decoded(
    stored: Sequence[tuple[int, bytes]], upstream: str | None, origin: Origin | None = None
) -> list[dict[str, Any]]:
    """Return the readable entries of an upstream and an origin, or with None of all, each with its `id`."""
    entries, kinds = [], [kind for kind, each in _ORIGIN_OF.items() if each == origin]
    for id, value in stored:
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if not isinstance(document, dict) or upstream not in (None, document.get("upstream")):
            continue
        # Not by the log it came from: earlier versions wrote the entries of files among those of people.
        if origin is None or document.get("kind") in kinds:
            entries.append({**document, "id": id})
    return entries


def _fields(declared: Declaration | None, other: Declaration | None) -> dict[str, Any]:
    """Return the fields by name; for servers, only those that differ in the other declaration."""
    if declared is None:
        return {}
        # In a whole upstream or server that comes or goes, a default value says nothing.
    fields = declared.upstream.model_dump(mode="json", exclude={"peers"}, exclude_defaults=other is None)
    others = {} if other is None else {peer.id: peer for peer in other.upstream.peers}
    for peer in declared.upstream.peers:
        same = others.get(peer.id)
        # Unchanged servers are the same objects, and there may be ten thousand.
        if same is not peer and same != peer:
            shown = peer.model_dump(exclude={"id"}, exclude_defaults=same is None)
            fields |= {f"peers.{peer.id}.{name}": value for name, value in shown.items()}
    return fields | {f"pods.{peer}": condition for peer, condition in declared.pods.items()}


def _bounded(value: Any) -> Any:  # noqa: ANN401 - any JSON
    text = json.dumps(value, allow_nan=False)
    return value if len(text) <= LONGEST_TEXT else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
