"""The stored declaration of an upstream: the upstream, its revision, and its origin.

Pure. Declarations come from the YAML file and from REST, and both may change.
So the file is applied if its section has changed since the last time. Then the
fields in the file take precedence. Other fields set over REST stay: a drain, a
pin, a registered peer. A peer that has left the file is removed. Kubernetes has
fields of its own, in `discovered`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from pydantic import BaseModel, ValidationError

from steelyard_controller.declarations import discovered, value_text
from steelyard_controller.declarations.discovered import Condition, Discovered, Pod
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.declarations.validation_messages import message

VERSION = 1

UNCHANGED = "nothing changed"
"""The `differences` of equal declarations."""


class Unknown(LookupError):
    """There is no such upstream or peer; the message lists the known ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One upstream as declared.

    revision       raised by every change
    file_digest    the digest of the last applied section of the YAML file; None: REST only
    file_peers     the peers of that section
    discovered     the pods declared by Kubernetes; None: none
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
        """Return the upstream with the states that follow from its pods' conditions."""
        return discovered.in_effect(self.upstream, self.pods)

    def changed(self, upstream: Upstream) -> "Declaration":
        """Return the declaration with a change over REST, in its next revision."""
        pods_discovered = self.discovered
        if pods_discovered is not None:
            # A deleted server that no Service has any more may be declared again, as an ordinary server.
            ids = {peer.id for peer in upstream.peers}
            kept = {peer: each for peer, each in pods_discovered.conditions.items() if peer in ids}
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
    """Return the declaration that `encode` wrote, or the reason why it cannot be read."""
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
        return "its part from Kubernetes is damaged"
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"


def with_file(stored: Declaration | None, section: Upstream) -> Declaration | None:
    """Return the declaration with the file's section applied; None if nothing changes."""
    digest = hashlib.sha256(json.dumps(_named(section), sort_keys=True).encode()).hexdigest()
    named = tuple(peer.id for peer in section.peers)
    if stored is None:
        return Declaration(upstream=section, file_digest=digest, file_peers=named)
    if stored.file_digest == digest:
        return None
    section_fields = {name: getattr(section, name) for name in section.model_fields_set - {"peers"}}
    merged = {**_fields(stored.upstream), **section_fields, "peers": _merged_peers(stored, section)}
    applied = replace(stored, file_digest=digest, file_peers=named)
    upstream = Upstream(**merged)
    if differences(stored.upstream, upstream) == UNCHANGED:
        # An edit of the file alone, such as servers in another order.
        return applied
    return replace(applied, upstream=upstream, revision=stored.revision + 1)


def with_pods(stored: Declaration | None, *, service: str, pods: Sequence[Pod]) -> Declaration | None:
    """Return the declaration with the pods of a Service (namespace/name); None if nothing changes."""
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


def _named(section: BaseModel) -> dict[str, Any]:
    """Return the fields that a section names, for its digest."""
    named = section.model_dump(mode="json", exclude_unset=True)
    # `max_conns: null` lifts a limit: the JSON leaves it out, as it does a field that the file does not name.
    named |= dict.fromkeys(section.model_fields_set - named.keys())
    if isinstance(section, Upstream) and "peers" in named:
        named["peers"] = [_named(peer) for peer in section.peers]
    return named


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
    """Return the changes in one line, for the log and the page: `server-1: state up -> drain`."""
    if before is None or after is None:
        return "declared" if before is None else "deleted"
    texts = [
        text
        for name in Upstream.model_fields
        if name != "peers"
        for text in value_text.changes(name, getattr(before, name), getattr(after, name))
    ]
    old_peers, new_peers = ({peer.id: peer for peer in each.peers} for each in (before, after))
    texts.extend(f"{peer} removed" for peer in old_peers if peer not in new_peers)
    texts.extend(f"{peer} added ({new_peers[peer].address})" for peer in new_peers if peer not in old_peers)
    for peer in old_peers:
        if peer in new_peers and old_peers[peer] != new_peers[peer]:
            changes = (
                text
                for name in Peer.model_fields
                for text in value_text.changes(
                    name, getattr(old_peers[peer], name), getattr(new_peers[peer], name)
                )
            )
            texts.append(f"{peer}: {', '.join(changes)}")
    return "; ".join(texts) or UNCHANGED


def all_differences(before: Declaration | None, after: Declaration | None) -> str:
    """Return `differences`, and the changes of the pods' Service and of their conditions."""
    if before is None or after is None:
        return "declared" if before is None else "deleted"
    old, new = (each.discovered and each.discovered.service for each in (before, after))
    texts = [
        differences(before.upstream, after.upstream),
        *value_text.changes("Service", old, new),
        discovered.differences(before.pods, after.pods),
    ]
    return "; ".join(text for text in texts if text not in ("", UNCHANGED)) or UNCHANGED


def mistakes(error: ValidationError, *, whole: str = "document", between: str = "; ") -> str:
    """Return pydantic's errors about a declaration, each with its field; `whole` names the document."""
    lines = []
    for each in error.errors():
        where = ".".join(str(part) for part in each["loc"]) or whole
        lines.append(f"{where}: {message(each, None)}")
    return between.join(lines)
