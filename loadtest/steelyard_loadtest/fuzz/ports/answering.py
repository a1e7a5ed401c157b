"""A server that answers whatever it is asked with bytes that nobody should send. I/O only."""

import contextlib
import socket
import socketserver
import threading
import time
from random import Random
from types import TracebackType
from typing import Self

from steelyard_loadtest.fuzz.ports import hostile

# It waits for a question no longer than this, and now and then does not wait at all.
QUESTION_S = 0.05


class Answering:
    """Listens on a free port of loopback while its block runs; `answered` counts."""

    def __init__(self, seed: int, seeds: tuple[bytes, ...] = hostile.ANSWERS) -> None:
        random, lock, outer = Random(seed), threading.Lock(), self
        self.answered = 0

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with lock:
                    data, waits, slow = (
                        hostile.drawn(random, seeds),
                        random.random() < 0.9,
                        random.random() < 0.05,
                    )
                    outer.answered += 1
                with contextlib.suppress(OSError):
                    _answer(self.request, data, waits=waits, slow=slow)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            allow_reuse_address = True
            request_queue_size = 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _answer(connection: socket.socket, data: bytes, *, waits: bool, slow: bool) -> None:
    connection.settimeout(QUESTION_S)
    if waits:
        with contextlib.suppress(TimeoutError):
            connection.recv(4096)
    connection.sendall(data[: len(data) // 2])
    if slow:
        time.sleep(0.3)
    connection.sendall(data[len(data) // 2 :])
