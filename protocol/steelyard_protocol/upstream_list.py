"""The list of upstreams: the message of the controller to an nginx that serves whatever is declared.

Pure. The producer is here, the consumer is openresty/steelyard/lib/steelyard/core; both
ends are tested on docs/contract/upstreams.json.
"""

import json
from dataclasses import dataclass
from itertools import pairwise

from steelyard_protocol import wire
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


def encode(listed: UpstreamList) -> bytes:
    """Return the text of the Memcached value."""
    document = {
        "v": wire.VERSION,
        "term": listed.term,
        "generation": listed.generation,
        "issued_at_ms": listed.issued_at_ms,
        "names": listed.names,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode(value: bytes) -> UpstreamList | Refused:
    """Read a list from the network; total, never raises."""
    try:
        document = wire.load_object(value)
        return UpstreamList(
            term=wire.integer(document, "term"),
            generation=wire.integer(document, "generation"),
            issued_at_ms=wire.integer(document, "issued_at_ms"),
            names=_names(wire.field(document, "names")),
        )
    except InvalidMessage as bad:
        return bad.refused


def _names(given: object) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise InvalidMessage("type", '"names" is not an array')
    if len(given) > MAX_NAMES:
        raise InvalidMessage("range", f'"names" has {len(given)} names, at most {MAX_NAMES} are read')
    names = tuple(wire.name({"names": name}, "names") for name in given)
    if any(after <= before for before, after in pairwise(names)):
        raise InvalidMessage("range", '"names" are not in order, or one is there twice')
    return names
