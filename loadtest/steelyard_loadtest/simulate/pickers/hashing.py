"""A 64-bit hash that is the same in every process (Python's own is not). Pure."""

from hashlib import blake2b


def hash64(text: str) -> int:
    """Return 64 bits of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
