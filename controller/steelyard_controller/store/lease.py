"""The lease: who leads, and the fencing term that all its weight tables carry.

Pure. The text is what Redis holds, and what a fenced write is compared with:
a controller may write only while Redis holds exactly its text.
"""

import json
from dataclasses import dataclass

import msgspec
from steelyard_protocol.typed_json import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A controller's right to write: its name, this run of it, its URL, its term.

    `store` names the store it was given by: another name means that the store was wiped, or is another one.
    """

    holder: str
    boot: str
    url: str
    term: Count
    store: str = ""


def encode(lease: Lease) -> str:
    """Return the lease as the text that Redis holds; it ends with the term, which Redis itself fills in."""
    document = {"holder": lease.holder, "boot": lease.boot, "url": lease.url, "term": lease.term}
    return json.dumps(document)


def decode(text: str | bytes) -> Lease | None:
    """Read a lease; None when it is damaged."""
    try:
        return msgspec.json.decode(text, type=Lease)
    except (ValueError, RecursionError):
        return None
