"""Signatures: with them, write access to Memcached is not enough to steer traffic.

Pure. With a shared key set a value is

    <64 lower-case hex digits of HMAC-SHA256(key, text)>.<text>        RFC 2104

and nothing else: one form only, so that a value is either signed or not.
A reader without a key refuses a signed value too: stripping a signature that it
cannot check would look safe and not be.

A signature names the writer of a text, but neither place nor time. Place: every
message names its upstream and its sender, and readers compare them with the
message's key. Time: readers refuse old messages by (term, generation), by
(boot, seq) and by the sender's clock (docs/decisions/0014-replay.md).
"""

import hmac
import re
from collections.abc import Callable
from typing import TypeVar

from steelyard_protocol.wire import Refused

T = TypeVar("T")

# 128 bits. A shorter key is a password: one captured value allows guesses at any speed.
SHORTEST_KEY_BYTES = 16

SIGNED = re.compile(rb"([0-9a-f]{64})\.")


def key_of(secret: bytes) -> bytes:
    """Return the key in a secret; raise ValueError if it is too short.

    A newline at the end does not count: editors and `echo` put one into a file.
    """
    key = secret.removesuffix(b"\n").removesuffix(b"\r")
    if len(key) < SHORTEST_KEY_BYTES:
        raise ValueError(
            f"a key has at least {SHORTEST_KEY_BYTES} bytes, and this one has {len(key)}: "
            "make one with `openssl rand -hex 32`"
        )
    return key


def key_of_variable(text: str) -> bytes:
    """Return the key in an environment variable; raise ValueError if it is too short.

    An empty one is not "none": a secret that failed to arrive would turn signing off in silence.
    """
    # surrogateescape: the bytes of the environment, equal to those of a file with the same key.
    return key_of(text.encode("utf-8", "surrogateescape"))


def digest(key: bytes, text: bytes) -> str:
    """Return the signature of a text: 64 lower-case hex digits."""
    return hmac.digest(key, text, "sha256").hex()


def sign(key: bytes, text: bytes) -> bytes:
    """Return the Memcached value: signature, dot, text."""
    return digest(key, text).encode() + b"." + text


def open_value(key: bytes | None, value: bytes) -> bytes | Refused:
    """Return the text of a value, or why it is not to be believed; total, never raises."""
    if key is None and value.startswith(b"{"):  # No signature begins like this.
        return value
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


def text_of(value: bytes) -> bytes:
    """Return the text of a value whose signature was checked before."""
    signed = SIGNED.match(value)
    return value if signed is None else value[signed.end() :]


def read(key: bytes | None, value: bytes, decode: Callable[[bytes], T | Refused]) -> T | Refused:
    """Return `decode` of the text of a value, if its signature is right."""
    text = open_value(key, value)
    return text if isinstance(text, Refused) else decode(text)
