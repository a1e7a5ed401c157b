"""A client and a server that send malformed bytes, and say what came of it (I/O)."""

import contextlib
import re
import socket
import struct
import threading
import time
from random import Random
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, Self

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.http_ask import exchange

from steelyard_resilience.fuzz.edits import an_input
from steelyard_resilience.fuzz.hostile_bytes import ANSWERS
from steelyard_resilience.fuzz.target import ACCEPTED

# It waits for a question no longer than this, and now and then does not wait at all.
QUESTION_S = 0.05

# Long enough for an answer over loopback; who says nothing by then waits for more, which is an outcome too.
ANSWER_S = 0.05

# A daemon on a machine that does other things too.
PATIENCE_S = 10.0

MANNERS = ("whole", "whole", "whole", "drip", "half-close", "gone", "reset", "silent")

# SO_LINGER with no time: close sends a reset.
RESET = struct.pack("ii", 1, 0)

NOTHING = "no answer"


class Answering(ThreadingTCPServer):
    """Answers whatever comes on a free `port` of loopback, while its block runs; `answered` counts."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.port: int = self.server_address[1]
        self.answered = 0
        self._random, self._lock = Random(seed), threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def finish_request(self, request: Any, client_address: object) -> None:  # noqa: ANN401, ARG002 (socketserver's)
        """Answer one connection, mostly after a question; now and then slowly."""
        with self._lock:
            data = an_input(self._random, ANSWERS)
            waits, slow = self._random.random() < 0.9, self._random.random() < 0.05
            self.answered += 1
        with contextlib.suppress(OSError):
            request.settimeout(QUESTION_S)
            with contextlib.suppress(TimeoutError):
                _ = waits and request.recv(4096)
            request.sendall(data[: len(data) // 2])
            time.sleep(0.3 if slow else 0)
            request.sendall(data[len(data) // 2 :])


def deliver(random: Random, port: int, data: bytes) -> str:
    """Send the bytes in some manner; return ACCEPTED, `HTTP 400`, "no answer" or "closed" ..."""
    manner = random.choice(MANNERS)
    step = len(data) // 3 + 1 if manner == "drip" else len(data) or 1
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.settimeout(ANSWER_S)
            if manner == "silent":
                return NOTHING
            for begin in range(0, len(data), step):
                connection.sendall(data[begin : begin + step])
                time.sleep(0.002 if manner == "drip" else 0)
            if manner == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            if manner in ("gone", "reset"):
                return "left before the answer"
            if manner == "half-close":
                connection.shutdown(socket.SHUT_WR)
            return outcome(connection.recv(4096))
    except TimeoutError:
        return NOTHING
    except OSError:  # it let go while we were sending, which is its right
        return "closed"


def outcome(answer: bytes) -> str:
    """Return what an answer is."""
    if not answer:
        return "closed"
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})", answer)
    if status is None or status[1].startswith(b"2"):
        return ACCEPTED
    return f"HTTP {status[1].decode()}"


def ask(port: int, data: bytes) -> bytes:
    """Return all that a right question is answered with; nothing where that takes too long."""
    with contextlib.suppress(ProgramError):
        return exchange("127.0.0.1", port, data, lambda stream: stream.read(), timeout_s=PATIENCE_S)
    return b""
