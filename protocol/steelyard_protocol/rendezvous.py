"""The Memcached server of a pool that keeps a key: rendezvous hashing. Pure.

    the servers of key k, best first:  sort s by hash(s, k), highest first        Thaler and Ravishankar, 1998

Writer and reader agree without a message. When a server leaves, only its own
keys move, each to its own next choice, so that its load spreads over all
others. A server's name is the operator's text: if two programs spell it
differently, their orders differ, which costs the reader one more question and
loses nothing.
"""

from collections.abc import Sequence
from hashlib import blake2b


def order(servers: Sequence[str], key: str) -> list[str]:
    """Return the servers in a key's order."""
    return sorted(servers, key=lambda server: (_score(server, key), server), reverse=True)


def _score(server: str, key: str) -> bytes:
    return blake2b(f"{server}\n{key}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
