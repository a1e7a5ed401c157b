"""A socket in place of HAProxy's."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from testing.waiting import PATIENCE_S

Answer = Callable[[socket.socket, threading.Event], None]
"""The handler of a connection; the event is set at the end of the test."""


@contextmanager
def serving(path: Path, answer: Answer) -> Iterator[None]:
    """Listen at `path`, and do this with each connection until the block ends."""
    ended, connections = threading.Event(), []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    with suppress(OSError):
                        answer(connection, ended)
                    connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_S)


def saying(text: str) -> Answer:
    """Return a handler that answers every question with this."""

    def say(connection: socket.socket, ended: threading.Event) -> None:  # noqa: ARG001
        connection.recv(1000)
        connection.sendall(text.encode())

    return say
