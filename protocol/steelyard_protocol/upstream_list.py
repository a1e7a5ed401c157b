"""The list of upstreams: the controller's message to an nginx that serves all declared upstreams.

Pure. The producer is here, the consumer is openresty/steelyard/lib/steelyard/core; both
ends are tested on docs/contract/upstreams.json.
"""

from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from steelyard_protocol.typed_json import Count, Name, TypedReader
from steelyard_protocol.wire import InvalidMessage, Refused

# This number of names with 64 characters fits a Memcached item. nginx serves at most 1,000 of them.
MAX_NAMES = 10_000


class UpstreamList(Struct, frozen=True, kw_only=True):
    """The names of all upstreams, in order; (`term`, `generation`) orders lists as it does tables."""

    v: Literal[1]
    term: Count
    generation: Count
    issued_at_ms: Count
    names: Annotated[tuple[Name, ...], Meta(max_length=MAX_NAMES)]


_READER = TypedReader(UpstreamList)


def encode(listed: UpstreamList) -> bytes:
    """Return the text of the Memcached value."""
    return msgspec.json.encode(listed)


def decode(value: bytes) -> UpstreamList | Refused:
    """Read a list from the network; total, never raises."""
    try:
        listed = _READER.read(value)
        if any(after <= before for before, after in pairwise(listed.names)):
            raise InvalidMessage("range", '"names" are not sorted, or one occurs twice')
    except InvalidMessage as bad:
        return bad.refused
    return listed
