"""The list of upstreams: the message of the controller to an nginx that serves whatever is declared.

Pure. The producer is here, the consumer is openresty/steelyard/lib/steelyard/core; both
ends are tested on docs/contract/upstreams.json.
"""

from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from steelyard_protocol import typed_json, wire
from steelyard_protocol.typed_json import Count, Name, TypedReader
from steelyard_protocol.wire import InvalidMessage, Refused

# So many names of 64 characters still fit a Memcached item. nginx serves no more than 1,000 of them.
MAX_NAMES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamList:
    """The names of all upstreams, in order; (`term`, `generation`) orders lists as it does tables."""

    term: int
    generation: int
    issued_at_ms: int
    names: tuple[str, ...]


class _List(Struct):
    v: Literal[1]
    term: Count
    generation: Count
    issued_at_ms: Count
    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_NAMES)]


_MEMBERS = [field.name for field in fields(UpstreamList)]
_READER = TypedReader(_List)


def encode(listed: UpstreamList) -> bytes:
    """Return the text of the Memcached value."""
    return msgspec.json.encode({"v": wire.VERSION, **asdict(listed)})


def decode(value: bytes) -> UpstreamList | Refused:
    """Read a list from the network; total, never raises."""
    try:
        message = _READER.read(value)
        if any(after <= before for before, after in pairwise(message.names)):
            raise InvalidMessage("range", '"names" are not in order, or one is there twice')
    except InvalidMessage as bad:
        return bad.refused
    return UpstreamList(**typed_json.members(message, _MEMBERS))
