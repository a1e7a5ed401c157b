"""Signatures: what keeps somebody who can write to Memcached from steering traffic.

Pure. With a shared key set a value is

    <64 lower-case hex digits of HMAC-SHA256(key, text)>.<text>        RFC 2104

and nothing else: one form only, so that a value either is signed or is not.
Where there is no key a signed value is refused too, because a reader that
strips what it cannot check would look safe and not be.

A signature says who wrote a text, and neither where nor when. Where: every
message names its upstream and its sender, and readers compare them with the
key it lay at. When: (term, generation), (boot, seq) and the sender's clock, by
which readers refuse what was said before (docs/decisions/0014-replay.md).
"""

import hmac
import re
from collections.abc import Callable
from typing import TypeVar

from steelyard_protocol.wire import Refused

T = TypeVar("T")

# 128 bits. A shorter key is a password, which can be guessed from one captured value at any speed.
SHORTEST_KEY_BYTES = 16

SIGNED = re.compile(rb"([0-9a-f]{64})\.")


def key_of(secret: bytes) -> bytes:
    """Return the key in a secret; raise ValueError when it is too short.

    A newline at the end is none of it: editors and `echo` put one into a file.
    """
    key = secret.removesuffix(b"\n").removesuffix(b"\r")
    if len(key) < SHORTEST_KEY_BYTES:
        raise ValueError(
            f"a key has at least {SHORTEST_KEY_BYTES} bytes, and this one has {len(key)}: "
            "make one with `openssl rand -hex 32`"
        )
    return key


def key_of_variable(text: str) -> bytes:
    """Return the key in an environment variable; raise ValueError when it is too short.

    An empty one is not "none": a secret that failed to arrive would turn signing off in silence.
    """
    # surrogateescape: the bytes that the environment holds, as who reads the key from a file sees them.
    return key_of(text.encode("utf-8", "surrogateescape"))


def digest(key: bytes, text: bytes) -> str:
    """Return the signature of a text: 64 lower-case hex digits."""
    return hmac.digest(key, text, "sha256").hex()


def sign(key: bytes, text: bytes) -> bytes:
    """Return the value that goes into Memcached: signature, dot, text."""
    return digest(key, text).encode() + b"." + text


def open_value(key: bytes | None, value: bytes) -> bytes | Refused:
    """Return the text of a value, or why it is not to be believed; total, never raises."""
    signed = SIGNED.match(value)
    if key is None:
        return value if signed is None else Refused("signed", "it is signed, and no key is set here: set it")
    if signed is None:
        return Refused("unsigned", "it is not signed with the shared key: set the key where it is written")
    text = value[signed.end() :]
    # Compared in constant time: how far a guess is right must not show in how long it took.
    if not hmac.compare_digest(digest(key, text).encode(), signed[1]):
        return Refused("signature", "it is signed with another key, or was changed on the way")
    return text


def read(key: bytes | None, value: bytes, decode: Callable[[bytes], T | Refused]) -> T | Refused:
    """Return what `decode` makes of the text of a value, if it is to be believed."""
    text = open_value(key, value)
    return text if isinstance(text, Refused) else decode(text)
