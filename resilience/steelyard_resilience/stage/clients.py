"""Commands to the stores of a stage, each on a connection of its own (I/O)."""

from collections.abc import Sequence
from typing import BinaryIO

from steelyard_loadtest.machine.http_ask import exchange, read_line

ORDER_S = 5.0
"""Of a change, which may take a while on a busy machine."""


def memcached(address: str, port: int, words: bytes) -> bytes:
    """Give Memcached a command; return all that it answers. Raises ProgramError."""
    # How long an answer is depends on the command. So one more follows, whose answer is known: `mn`
    # does nothing but say MN (Memcached's doc/protocol.txt, meta no-op).
    return exchange(address, port, words + b"\r\nmn\r\n", _read_to_mn, timeout_s=ORDER_S)


def redis(address: str, port: int, parts: Sequence[str]) -> bytes:
    """Give Redis a command; return its answer as it comes over the wire (RESP 2). Raises ProgramError."""
    words = [part.encode() for part in parts]
    command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return exchange(address, port, command, _read_resp, timeout_s=ORDER_S)


def _read_to_mn(stream: BinaryIO) -> bytes:
    answer = b""
    while (part := read_line(stream)) != b"MN\r\n":
        answer += part
    return answer


def _read_resp(stream: BinaryIO) -> bytes:
    answer = read_line(stream)
    kind, count = answer[:1], answer[1:].strip()
    if kind == b"$" and int(count) >= 0:
        return answer + stream.read(int(count) + 2)
    if kind == b"*":
        return answer + b"".join(_read_resp(stream) for _ in range(max(int(count), 0)))
    return answer
