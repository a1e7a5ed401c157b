"""Short questions to the daemons of a cell, each on a connection of its own (I/O). All raise ProgramError."""

import socket
from pathlib import Path

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.http_ask import ask

TIMEOUT_S = 10.0
"""They are on this machine; one that is busy answers late."""


def http_ask(port: int, path: str, *, method: str = "GET", document: object = None) -> tuple[int, bytes]:
    """Return the status and body of 127.0.0.1's answer; `document` is sent as JSON."""
    return ask("127.0.0.1", port, path, method=method, document=document, timeout_s=TIMEOUT_S)


def order(port: int, words: str, wanted: str) -> None:
    """Say one line to Memcached or Redis, which must answer with the line that is wanted."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as connection:
            connection.sendall(f"{words}\r\n".encode())
            said = connection.makefile("rb").readline().decode(errors="replace").strip()
    except OSError as error:
        raise ProgramError(f"port {port} does not take {words}: {error}") from None
    if said != wanted:
        raise ProgramError(f"port {port} answers {words} with {said!r}, not {wanted!r}")


def command(path: Path, words: str) -> str:
    """Give HAProxy's socket a command; return its answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
            connection.sendall(f"{words}\n".encode())
            said = connection.makefile("rb").read()
        except OSError as error:
            raise ProgramError(f"{path} does not take {words!r}: {error}") from None
    return said.decode(errors="replace").strip()
