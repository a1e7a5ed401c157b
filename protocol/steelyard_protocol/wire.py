"""Common parts of all messages of version 1: Memcached keys, names, and reasons to refuse one.

Pure. Each reader checks the version by its shape (`typed_json`). No decoder raises on bytes from the
network: otherwise one written Memcached item could stop a controller.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

VERSION = 1

# The key of the list of all upstreams; `upstreams_key` has that of an installation with a name.
UPSTREAMS_KEY = f"steelyard:{VERSION}:upstreams"

# The key of announcements of undeclared load balancers (`announced`).
ANNOUNCED_KEY = f"steelyard:{VERSION}:load-balancers"

# The key of the load balancers' runs (`balancer_runs`).
RUNS_KEY = f"steelyard:{VERSION}:runs"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# Memcached's default item size; nothing larger can have come from there.
MAX_BYTES = 1024 * 1024

# The longest weight table, which may be in chunks, has 90,000 servers with ordinary names, or 30,000 with
# names and addresses of the largest length.
MAX_TABLE_BYTES = 8 * MAX_BYTES

# Larger integers are not exact in the doubles of Lua and of many JSON readers.
MAX_INTEGER = 2**53

Reason = Literal[
    "too_large", "not_json", "not_object", "version", "missing", "type", "range", "name",
    "unsigned", "signature", "signed", "replayed",
]  # fmt: skip
REASONS: tuple[Reason, ...] = get_args(Reason)


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


def upstreams_key(installation: str = "") -> str:
    """Return the Memcached key of an installation's list of upstreams; without a name, of the only one."""
    return f"{UPSTREAMS_KEY}:{installation}" if installation else UPSTREAMS_KEY


def weights_key(upstream: str) -> str:
    """Return the Memcached key of an upstream's weight table."""
    return f"steelyard:{VERSION}:weights:{upstream}"


def head_key(upstream: str) -> str:
    """Return the Memcached key of the head of an upstream's weight table."""
    return f"steelyard:{VERSION}:head:{upstream}"


def chunk_key(upstream: str, name: str) -> str:
    """Return the Memcached key of a chunk of a weight table."""
    return f"steelyard:{VERSION}:chunk:{upstream}:{name}"


def is_name(text: object) -> bool:
    """Return whether `text` can name an upstream, a peer or a load balancer."""
    return isinstance(text, str) and NAME.fullmatch(text) is not None
