"""The section of an upstream in the file of `steelyard save`, and its effect in `steelyard apply`. Pure.

The file names every field, also those with a default: `apply` changes only what a file names. A server's
state and pin are named only if they differ from the default, so `apply` does not undo later drains and pins.
"""

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel

from steelyard_controller.declarations.declaration import Declaration, with_file
from steelyard_controller.declarations.upstream import Peer, Upstream

SET_LATER = frozenset({"state", "pin"})
"""The fields of a server that a person sets day by day."""


def section_of(upstream: Upstream, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return an upstream's section; `without` are the ids of the servers to leave out."""
    peers = [_of_peer(peer) for peer in upstream.peers if peer.id not in without]
    return {**_every_field(upstream), "peers": peers}


def applied(before: Upstream | None, section: Upstream, *, prune: bool) -> Upstream:
    """Return the declaration with a section applied; raise pydantic's ValidationError.

    With `prune`, servers that the section does not name are removed.
    """
    if before is None:
        return section
    # `with_file` removes peers of earlier files that this one lacks: with `prune`, all of them.
    known = tuple(peer.id for peer in before.peers) if prune else ()
    merged = with_file(Declaration(upstream=before, file_peers=known), section)
    return before if merged is None else merged.upstream


def _of_peer(peer: Peer) -> dict[str, Any]:
    unset = {name for name in SET_LATER if getattr(peer, name) == Peer.model_fields[name].default}
    return {name: value for name, value in _every_field(peer).items() if name not in unset}


def _every_field(model: BaseModel) -> dict[str, Any]:
    # The JSON leaves out some fields that are not declared. In a file, their null lifts a later value.
    written = model.model_dump(mode="json")
    return {name: written.get(name) for name in type(model).model_fields}
