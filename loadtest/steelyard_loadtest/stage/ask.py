"""Short questions to the daemons of a stage, each on a connection of its own (I/O)."""

import json
import socket
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.errors import ProgramError

LOOK_S = 1.0
"""Of a look at something that may be cut off or stopped: an answer takes some milliseconds."""

ORDER_S = 5.0
"""Of a change, which may take a while on a busy machine."""


def look(address: str, port: int, path: str, token: str | None = None) -> dict[str, Any] | None:
    """Return an answer that is a JSON object, whatever its status; None when there is none within LOOK_S."""
    try:
        _, body = http_ask.ask(address, port, path, token=token, timeout_s=LOOK_S)
        document = json.loads(body)
    except (ProgramError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def line(address: str, port: int, words: str) -> str:
    """Send a line; return the line that is answered. Raises ProgramError."""
    return _said(address, port, words.encode() + b"\n", _read_line).decode().strip()


def memcached(address: str, port: int, words: bytes) -> bytes:
    """Give Memcached a command; return all that it answers. Raises ProgramError."""
    # How long an answer is depends on the command. So one more follows, whose answer is known: `mn`
    # does nothing but say MN (Memcached's doc/protocol.txt, meta no-op).
    return _said(address, port, words + b"\r\nmn\r\n", _read_to_mn)


def redis(address: str, port: int, parts: Sequence[str]) -> bytes:
    """Give Redis a command; return its answer as it comes over the wire (RESP 2). Raises ProgramError."""
    words = [part.encode() for part in parts]
    command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return _said(address, port, command, _read_resp)


def _said(address: str, port: int, words: bytes, read: Callable[[BinaryIO], bytes]) -> bytes:
    try:
        with socket.create_connection((address, port), timeout=ORDER_S) as connection:
            connection.sendall(words)
            with connection.makefile("rb") as stream:
                return read(stream)
    except OSError as error:
        raise ProgramError(f"{address}:{port} does not answer {words[:60]!r}: {error}") from None


def _read_line(stream: BinaryIO) -> bytes:
    if not (said := stream.readline()):
        raise ConnectionError("it closed the connection")
    return said


def _read_to_mn(stream: BinaryIO) -> bytes:
    said = b""
    while (said_line := _read_line(stream)) != b"MN\r\n":
        said += said_line
    return said


def _read_resp(stream: BinaryIO) -> bytes:
    said = _read_line(stream)
    kind, count = said[:1], said[1:].strip()
    if kind == b"$" and int(count) >= 0:
        return said + stream.read(int(count) + 2)
    if kind == b"*":
        return said + b"".join(_read_resp(stream) for _ in range(max(int(count), 0)))
    return said
