"""Misbehaving servers, for tests of their clients."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

# Each byte arrives within a client's timeout for one read; all of them take 40 s.
DRIP_EVERY_S = 0.05
DRIPS = 800


class DrippingServer:
    """Sends single bytes of an endless answer; `sent` counts them over all `connections`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        self.sent = 0
        self.stopped = threading.Event()

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_dripping(self) -> bool:
        """Return whether it has begun and not finished its answer."""
        return 0 < self.sent < DRIPS


@contextmanager
def serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Listen on a port and serve each connection in its own thread; end them all at the end."""
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def handle(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection)

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            threads.append(threading.Thread(target=handle, args=(connection,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, args=(listener,))
        accepting.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Yield the port of a server that gives this answer to everything."""

    def serve(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(answer)

    with serving(serve) as port:
        yield port


@contextmanager
def dripping() -> Iterator[DrippingServer]:
    """Yield a server that drips single bytes."""
    server = DrippingServer(0)

    def serve(connection: socket.socket) -> None:
        server.connections += 1
        for _ in range(DRIPS):
            connection.sendall(b"V")
            server.sent += 1
            if server.stopped.wait(DRIP_EVERY_S):
                return

    with serving(serve) as server.port:
        try:
            yield server
        finally:
            server.stopped.set()


@contextmanager
def unreachable() -> Iterator[int]:
    """Yield a port of 127.0.0.1 that neither accepts nor refuses connections."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        # One connection waits to be accepted; the queue has no room for others.
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]
