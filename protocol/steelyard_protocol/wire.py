"""What all messages of version 1 share: Memcached keys, names, and the reading of JSON fields.

Pure: bytes in, a value or a `Refused` out. No decoder raises on what the network
may hold: whoever can write one Memcached item could stop a controller with it.
"""

import json
import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

VERSION = 1

# Where the list of all upstreams is.
UPSTREAMS_KEY = f"steelyard:{VERSION}:upstreams"

# Where load balancers announce themselves that nobody declared (`announced`).
ANNOUNCED_KEY = f"steelyard:{VERSION}:load-balancers"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# Memcached's default item size; nothing larger can have come from there.
MAX_BYTES = 1024 * 1024

# The longest weight table, which may lie there in chunks, has 90,000 servers with ordinary names, or 30,000
# whose names and addresses are as long as they may be.
MAX_TABLE_BYTES = 8 * MAX_BYTES

# Integers above this are no longer exact in the doubles that Lua and many JSON readers use.
MAX_INTEGER = 2**53

Reason = Literal[
    "too_large", "not_json", "not_object", "version", "missing", "type", "range", "name",
    "unsigned", "signature", "signed", "replayed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a value from the network was not taken: a countable reason and a sentence."""

    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"refused ({self.reason}): {self.detail}"


class InvalidMessage(Exception):
    """A message cannot be read; decoders catch it and return its `refused`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.refused = Refused(reason, detail)


def sample_key(upstream: str, peer: str) -> str:
    """Return the Memcached key of a peer's sample."""
    return f"steelyard:{VERSION}:sample:{upstream}:{peer}"


def traffic_key(upstream: str, lb: str) -> str:
    """Return the Memcached key of a load balancer's traffic report."""
    return f"steelyard:{VERSION}:traffic:{upstream}:{lb}"


def weights_key(upstream: str) -> str:
    """Return the Memcached key of an upstream's weight table."""
    return f"steelyard:{VERSION}:weights:{upstream}"


def head_key(upstream: str) -> str:
    """Return the Memcached key of the head of an upstream's weight table."""
    return f"steelyard:{VERSION}:head:{upstream}"


def chunk_key(upstream: str, name: str) -> str:
    """Return the Memcached key of a part of a weight table that one item does not hold."""
    return f"steelyard:{VERSION}:chunk:{upstream}:{name}"


def is_name(text: object) -> bool:
    """Tell whether `text` can name an upstream, a peer or a load balancer."""
    return isinstance(text, str) and NAME.fullmatch(text) is not None


def load_object(value: bytes, *, most: int = MAX_BYTES) -> dict[str, Any]:
    """Parse a JSON object of wire version 1 and of `most` bytes; raise `InvalidMessage` for anything else.

    Stricter than `json.loads`: NaN and Infinity are not JSON (RFC 8259), and
    neither is a document nested beyond the parser's depth.
    """
    if len(value) > most:
        raise InvalidMessage("too_large", f"{len(value)} bytes, at most {most} are read")
    try:
        document = json.loads(value.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage("not_json", str(error)[:200]) from None
    if not isinstance(document, dict):
        raise InvalidMessage("not_object", f"a JSON {type(document).__name__}, not an object")
    if "v" not in document:
        raise InvalidMessage("missing", 'no "v" (the format version)')
    if document["v"] != VERSION or isinstance(document["v"], bool):
        raise InvalidMessage("version", f"version {_shown(document['v'])}, this program reads {VERSION}")
    return document


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def field(document: dict[str, Any], key: str) -> object:
    """Return `document[key]`; raise `InvalidMessage` when it is missing."""
    if key not in document:
        raise InvalidMessage("missing", f'no "{key}"')
    return document[key]


def name(document: dict[str, Any], key: str) -> str:
    """Return a field that must be a name."""
    value = field(document, key)
    if not isinstance(value, str) or not is_name(value):
        raise InvalidMessage("name", f'"{key}" is {_shown(value)}; a name is {NAME.pattern}')
    return value


def integer(document: dict[str, Any], key: str, *, low: int = 0, high: int = MAX_INTEGER) -> int:
    """Return a field that must be a whole number within bounds."""
    value = field(document, key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidMessage("type", f'"{key}" is {_shown(value)}, not a whole number')
    if not low <= value <= high:
        raise InvalidMessage("range", f'"{key}" is {_shown(value)}, outside {low}..{high}')
    return value


def number(document: dict[str, Any], key: str, *, low: float = 0.0, high: float = 1e15) -> float:
    """Return a field that must be a finite number within bounds."""
    value = field(document, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidMessage("type", f'"{key}" is {_shown(value)}, not a number')
    if not low <= value <= high or not isfinite(value):
        raise InvalidMessage("range", f'"{key}" is {_shown(value)}, outside {low:g}..{high:g}')
    return float(value)


def text(document: dict[str, Any], key: str, *, longest: int = 128) -> str:
    """Return a field that must be a short, non-empty string."""
    value = field(document, key)
    if not isinstance(value, str):
        raise InvalidMessage("type", f'"{key}" is {_shown(value)}, not a string')
    if not 0 < len(value) <= longest:
        raise InvalidMessage("range", f'"{key}" has {len(value)} characters, 1..{longest} are allowed')
    return value


def mapping(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a field that must be an object."""
    value = field(document, key)
    if not isinstance(value, dict):
        raise InvalidMessage("type", f'"{key}" is {_shown(value)}, not an object')
    return value


def _shown(value: object) -> str:
    # What the parser could just bear may be nested too deep for the encoder: its kind is enough to know.
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    # A huge integer's repr raises in Python 3.11 (the digit limit); its size is enough to know.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INTEGER:
        return f"a number of {value.bit_length()} bits"
    return json.dumps(value)[:60]
