"""One question on a connection of its own: HTTP, or a daemon's own protocol (I/O)."""

import http.client
import json
import socket
from collections.abc import Callable
from typing import Any, BinaryIO

from steelyard_loadtest.machine.errors import ProgramError

TIMEOUT_S = 10.0
"""For a daemon on this machine, which answers late when it is busy."""

LOOK_S = 1.0
"""For a part that may be cut off or stopped: an answer takes some milliseconds."""


def ask(
    address: str,
    port: int,
    path: str,
    *,
    timeout_s: float = TIMEOUT_S,
    method: str = "GET",
    document: object = None,
    token: str | None = None,
) -> tuple[int, bytes]:
    """Return the status and body of an answer; `document` is sent as JSON. Raises ProgramError."""
    body = None if document is None else json.dumps(document)
    headers = {"Content-Type": "application/json"} if body else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ProgramError(f"{address}:{port} does not answer {method} {path}: {error}") from None
    finally:
        connection.close()


def why_not_ok(address: str, port: int, path: str, *, timeout_s: float = TIMEOUT_S) -> str | None:
    """Return what is wrong with the answer to GET `path`; None if it is 200."""
    try:
        status, body = ask(address, port, path, timeout_s=timeout_s)
    except ProgramError as error:
        return str(error)
    return None if status == 200 else f"{path} answers {status} {body[:200].decode(errors='replace')}"


def look(
    address: str, port: int, path: str, token: str | None = None, *, timeout_s: float = LOOK_S
) -> dict[str, Any] | None:
    """Return an answer that is a JSON object, whatever its status; None without one in time."""
    try:
        _, body = ask(address, port, path, token=token, timeout_s=timeout_s)
        document = json.loads(body)
    except (ProgramError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def ask_line(address: str, port: int, words: str, *, timeout_s: float = TIMEOUT_S) -> str:
    """Return the first line of the answer to a line. Raises ProgramError."""
    said = exchange(address, port, f"{words}\r\n".encode(), read_line, timeout_s=timeout_s)
    return said.decode(errors="replace").strip()


def exchange(
    address: str, port: int, words: bytes, read: Callable[[BinaryIO], bytes], *, timeout_s: float
) -> bytes:
    """Send words, and return the part of the answer that `read` takes. Raises ProgramError."""
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            connection.sendall(words)
            with connection.makefile("rb") as stream:
                return read(stream)
    except OSError as error:
        raise ProgramError(f"{address}:{port} does not answer {words[:60]!r}: {error}") from None


def read_line(stream: BinaryIO) -> bytes:
    """Return a line with its end. Raises ConnectionError if there is none."""
    if not (answer := stream.readline()):
        raise ConnectionError("it closed the connection")
    return answer
