"""Servers in their own threads, for handlers of Python's socketserver and http.server."""

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Prompt(socketserver.TCPServer):
    """A server that waits for connections and for its end; name it before the class that it changes.

    Python's own looks for its end many times a second.
    """

    _over = False

    def serve_forever(self, poll_interval: float = 0.0) -> None:  # noqa: ARG002
        """Serve each connection until `shutdown`."""
        while not self._over and self.socket.fileno() >= 0:
            try:
                request, client = self.get_request()
            except OSError:  # the end, or a client that did not finish its handshake
                continue
            self.process_request(request, client)

    def shutdown(self) -> None:
        """Accept no further connection; harmless if it has been closed."""
        self._over = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # this wakes the thread that waits


class PromptHTTPServer(Prompt, ThreadingHTTPServer):
    """An HTTP server with a thread for each connection."""

    daemon_threads = True


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Answer requests on 127.0.0.1 until the end of the block; yield the port."""
    with PromptHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
