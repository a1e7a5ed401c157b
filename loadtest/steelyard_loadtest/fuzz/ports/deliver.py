"""Send bytes to a port as no good client would, and say what came back. I/O only."""

import contextlib
import re
import socket
import struct
import time
from random import Random

from steelyard_loadtest.fuzz.model import ACCEPTED

# Long enough for an answer over loopback; who says nothing by then waits for more, which is an outcome too.
ANSWER_S = 0.05

MANNERS = ("whole", "whole", "whole", "drip", "half-close", "gone", "reset", "silent")

# SO_LINGER with no time: close sends a reset.
RESET = struct.pack("ii", 1, 0)

NOTHING = "no answer"


def deliver(random: Random, port: int, data: bytes, *, patience_s: float = ANSWER_S) -> str:
    """Send the bytes in some manner; return ACCEPTED, `HTTP 400`, "no answer" or "closed" ..."""
    manner = random.choice(MANNERS)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(patience_s)
            if manner == "silent":
                return NOTHING
            _send(connection, data, drip=manner == "drip")
            if manner == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if manner in ("gone", "reset"):
                return "left before the answer"
            if manner == "half-close":
                connection.shutdown(socket.SHUT_WR)
            return outcome(connection.recv(4096))
    except TimeoutError:
        return NOTHING
    except OSError:  # it let go in the middle of our words, which is its right
        return "closed"


def outcome(answer: bytes) -> str:
    """Return what an answer is."""
    if not answer:
        return "closed"
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})", answer)
    if status is None or status[1].startswith(b"2"):
        return ACCEPTED
    return f"HTTP {status[1].decode()}"


def ask(port: int, data: bytes, *, patience_s: float) -> bytes:
    """Return all that a right question is answered with; what came by then when it takes too long."""
    answer = b""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), timeout=patience_s) as connection,
    ):
        connection.sendall(data)
        while chunk := connection.recv(65536):
            answer += chunk
    return answer


def _send(connection: socket.socket, data: bytes, *, drip: bool) -> None:
    if not drip:
        connection.sendall(data)
        return
    third = len(data) // 3 + 1
    for begin in range(0, len(data), third):
        connection.sendall(data[begin : begin + third])
        time.sleep(0.002)
