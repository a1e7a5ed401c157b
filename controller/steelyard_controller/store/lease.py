"""The lease of the leader, with the fencing term that all its weight tables carry.

Pure. Redis holds the lease as a text, and fenced writes compare it: a
controller may write only while Redis holds exactly its text.
"""

import json
from dataclasses import dataclass

import msgspec
from steelyard_protocol.typed_json import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A controller's right to write: its name, its run, its URL and its term.

    `store` names the store that gave it; another name means a wiped store or another one.
    """

    holder: str
    boot: str
    url: str
    term: Count
    store: str = ""


def encode(lease: Lease) -> str:
    """Return the lease as the text in Redis; it ends with the term, which Redis itself fills in."""
    document = {"holder": lease.holder, "boot": lease.boot, "url": lease.url, "term": lease.term}
    return json.dumps(document)


def decode(text: str | bytes) -> Lease | None:
    """Read a lease; return None if it is damaged."""
    try:
        return msgspec.json.decode(text, type=Lease)
    except (ValueError, RecursionError):
        return None
