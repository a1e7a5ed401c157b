"""Which Memcached server of a pool keeps a key: rendezvous hashing. Pure.

    the servers of key k, best first:  sort s by hash(s, k), highest first        Thaler and Ravishankar, 1998

Writer and reader agree without talking to each other; when a server leaves,
only its own keys move, each to its own next choice, so that its load is spread
over all that are left. A server is what the operator wrote: where two
programs spell it differently their orders differ, which costs the reader one
more question and loses nothing.
"""

from collections.abc import Sequence
from hashlib import blake2b


def order(servers: Sequence[str], key: str) -> list[str]:
    """Return the servers in the order in which a key tries them."""
    return sorted(servers, key=lambda server: (_score(server, key), server), reverse=True)


def _score(server: str, key: str) -> bytes:
    return blake2b(f"{server}\n{key}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
