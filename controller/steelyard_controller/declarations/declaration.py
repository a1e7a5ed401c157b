"""The declaration of an upstream as it is stored: the upstream, its revision, and its origin.

Pure. Declarations come from the YAML file and from REST, and both may change:
so the file is applied when its section has changed since it was last applied,
and then the fields that it names win, while what REST set beside them (a drain,
a pin, a registered peer) stays. A peer that the file declared and no longer
does is gone. What Kubernetes declares is `discovered`'s: fields of its own.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from steelyard_controller.declarations import discovered
from steelyard_controller.declarations.discovered import Condition, Discovered, Pod
from steelyard_controller.declarations.upstream import Peer, Upstream

VERSION = 1


class Unknown(LookupError):
    """There is no such upstream or peer; the message lists those there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One upstream as declared.

    revision       raised by every change
    file_digest    of the section of the YAML file that was last applied; None: REST alone
    file_peers     the peers which that section declared
    discovered     what Kubernetes declares of its pods; None: nothing
    """

    upstream: Upstream
    revision: int = 1
    file_digest: str | None = None
    file_peers: tuple[str, ...] = ()
    discovered: Discovered | None = None

    @property
    def pods(self) -> Mapping[str, Condition]:
        """Return the condition of each peer that is a pod."""
        if self.discovered is None:
            return {}
        of_file = set(self.file_peers)
        return {peer: each for peer, each in self.discovered.conditions.items() if peer not in of_file}

    @property
    def in_effect(self) -> Upstream:
        """Return the upstream with the states that its pods' conditions bring about."""
        return discovered.in_effect(self.upstream, self.pods)

    def changed(self, upstream: Upstream) -> "Declaration":
        """Return the declaration with a change over REST, in its next revision."""
        pods_discovered = self.discovered
        if pods_discovered is not None:
            # Who deletes a server that nobody discovers any more can declare it anew, as none of a pod's.
            there = {peer.id for peer in upstream.peers}
            kept = {peer: each for peer, each in pods_discovered.conditions.items() if peer in there}
            pods_discovered = replace(pods_discovered, conditions=kept)
        return replace(self, upstream=upstream, revision=self.revision + 1, discovered=pods_discovered)


def encode(declaration: Declaration) -> bytes:
    """Return the declaration as JSON."""
    document = {
        "v": VERSION,
        "revision": declaration.revision,
        "file_digest": declaration.file_digest,
        "file_peers": declaration.file_peers,
        "upstream": declaration.upstream.model_dump(mode="json"),
    }
    if declaration.discovered is not None:
        document["discovered"] = msgspec.to_builtins(declaration.discovered)
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def decode(value: bytes) -> Declaration | str:
    """Return the declaration that `encode` wrote, or a text that says why it cannot be read."""
    try:
        document = json.loads(value)
        if not isinstance(document, dict) or document.get("v") != VERSION:
            return f"it is no declaration of version {VERSION}"
        revision, digest, peers = (document.get(name) for name in ("revision", "file_digest", "file_peers"))
        if not isinstance(revision, int) or not isinstance(peers, list):
            return "its revision or its list of peers is damaged"
        return Declaration(
            upstream=Upstream.model_validate(document.get("upstream")),
            revision=revision,
            file_digest=digest if isinstance(digest, str) else None,
            file_peers=tuple(str(peer) for peer in peers),
            discovered=msgspec.convert(document.get("discovered"), Discovered | None),
        )
    except ValidationError as error:
        return mistakes(error)
    except msgspec.ValidationError:
        return "what Kubernetes declared of it is damaged"
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"


def with_file(stored: Declaration | None, section: Upstream) -> Declaration | None:
    """Return the declaration with the file's section applied; None when nothing changes."""
    digest = hashlib.sha256(
        json.dumps(section.model_dump(mode="json", exclude_unset=True), sort_keys=True).encode()
    ).hexdigest()
    named = tuple(peer.id for peer in section.peers)
    if stored is None:
        return Declaration(upstream=section, file_digest=digest, file_peers=named)
    if stored.file_digest == digest:
        return None
    given = {name: getattr(section, name) for name in section.model_fields_set - {"peers"}}
    merged = {**_fields(stored.upstream), **given, "peers": _merged_peers(stored, section)}
    return replace(
        stored,
        upstream=Upstream(**merged),
        revision=stored.revision + 1,
        file_digest=digest,
        file_peers=named,
    )


def with_pods(stored: Declaration | None, *, service: str, pods: Sequence[Pod]) -> Declaration | None:
    """Return the declaration with the pods of a Service (namespace/name); None when nothing changes."""
    before = Declaration(upstream=Upstream()) if stored is None else stored
    peers = discovered.with_pods(
        before.upstream.peers, known=before.pods, of_file=before.file_peers, pods=pods
    )
    after = replace(
        before,
        upstream=before.upstream if peers == before.upstream.peers else _with_peers(before.upstream, peers),
        discovered=Discovered(
            service=service,
            conditions={pod.id: pod.condition for pod in pods if pod.id not in before.file_peers},
        ),
    )
    if after == stored:
        return None
    return after if stored is None else replace(after, revision=stored.revision + 1)


def _merged_peers(stored: Declaration, section: Upstream) -> list[Peer]:
    before = {peer.id: peer for peer in stored.upstream.peers}
    of_file = [
        Peer(**{**_fields(before[peer.id]), **{name: getattr(peer, name) for name in peer.model_fields_set}})
        if peer.id in before
        else peer
        for peer in section.peers
    ]
    now = {peer.id for peer in section.peers}
    others = [
        peer for peer in stored.upstream.peers if peer.id not in now and peer.id not in stored.file_peers
    ]
    return of_file + others


def _fields(model: Upstream | Peer) -> dict[str, Any]:
    return {name: getattr(model, name) for name in type(model).model_fields}


def peer_of(upstream: Upstream, peer: str) -> Peer:
    """Return a declared peer; raise `Unknown`."""
    for each in upstream.peers:
        if each.id == peer:
            return each
    known = ", ".join(each.id for each in upstream.peers[:20]) or "none"
    raise Unknown(f"there is no peer {peer}; there are: {known}")


def with_peer(upstream: Upstream, peer: Peer) -> Upstream:
    """Return the upstream with `peer` added, or in place of the peer with its id."""
    peers = {each.id: each for each in upstream.peers} | {peer.id: peer}
    return _with_peers(upstream, list(peers.values()))


def with_patch(upstream: Upstream, peer: str, patch: Mapping[str, Any]) -> Upstream:
    """Return the upstream with some fields of a peer set; raise `Unknown`, pydantic's ValidationError."""
    fields = _fields(peer_of(upstream, peer))
    # RFC 7396: null removes a member, which here means its default.
    for name, value in patch.items():
        if value is None and name in Peer.model_fields:
            fields.pop(name, None)
        else:
            fields[name] = value
    return with_peer(upstream, Peer(**fields))


def without_peer(upstream: Upstream, peer: str) -> Upstream:
    """Return the upstream without a peer; raise `Unknown`."""
    peer_of(upstream, peer)
    return _with_peers(upstream, [each for each in upstream.peers if each.id != peer])


def _with_peers(upstream: Upstream, peers: Sequence[Peer]) -> Upstream:
    return Upstream(**{**_fields(upstream), "peers": list(peers)})


def differences(before: Upstream | None, after: Upstream | None) -> str:
    """Return in a line what changed, for the log and the page: `server-1: state up -> drain`."""
    if before is None or after is None:
        return "declared" if before is None else "deleted"
    said = [
        f"{name} {_said(old)} -> {_said(new)}"
        for name in Upstream.model_fields
        if name != "peers"
        for old, new in [(getattr(before, name), getattr(after, name))]
        if old != new
    ]
    old_peers, new_peers = ({peer.id: peer for peer in each.peers} for each in (before, after))
    said.extend(f"{peer} removed" for peer in old_peers if peer not in new_peers)
    said.extend(f"{peer} added ({new_peers[peer].address})" for peer in new_peers if peer not in old_peers)
    for peer in old_peers:
        if peer in new_peers and old_peers[peer] != new_peers[peer]:
            changes = (
                f"{name} {_said(getattr(old_peers[peer], name))} -> {_said(getattr(new_peers[peer], name))}"
                for name in Peer.model_fields
                if getattr(old_peers[peer], name) != getattr(new_peers[peer], name)
            )
            said.append(f"{peer}: {', '.join(changes)}")
    return "; ".join(said) or "nothing changed"


def all_differences(before: Declaration | None, after: Declaration | None) -> str:
    """Return `differences`, and which pods' conditions changed."""
    if before is None or after is None:
        return "declared" if before is None else "deleted"
    conditions = discovered.differences(before.pods, after.pods)
    if conditions and before.upstream == after.upstream:
        return conditions
    return "; ".join(filter(None, (differences(before.upstream, after.upstream), conditions)))


def _said(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        value = {
            name: each.model_dump(exclude_none=True) if isinstance(each, BaseModel) else each
            for name, each in value.items()
        }
    return f"{value:g}" if isinstance(value, float) else str(value)


def mistakes(error: ValidationError, *, whole: str = "document", between: str = "; ") -> str:
    """Return pydantic's errors about a declaration, each with its field; `whole` is what has the fields."""
    lines = []
    for each in error.errors():
        where = ".".join(str(part) for part in each["loc"]) or whole
        lines.append(f"{where}: {each['msg'].removeprefix('Value error, ')}")
    return between.join(lines)
