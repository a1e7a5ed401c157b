"""A small server behind the nginx under test. It answers with its name, and can be slow or broken."""

import contextlib
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from testing.daemons import free_port

PIECE_S = 0.1  # between two bytes of a slow body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    name: ClassVar[str]
    statuses: ClassVar[dict[str, int]]
    delays_s: ClassVar[dict[str, float]]
    holds: ClassVar[dict[str, threading.Event]]
    headers_sent: ClassVar[dict[str, str]]
    received: ClassVar[list[tuple[str, dict[str, str], bytes]]]
    connections: ClassVar[set[socket.socket]]

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.connection)

    def finish(self) -> None:
        self.connections.discard(self.connection)
        super().finish()

    def do_PURGE(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path in self.holds:
            self.holds[url.path].wait()
        time.sleep(float(query.get("sleep_s", self.delays_s.get(url.path, 0))))
        try:
            if "Upgrade" in self.headers:
                self._upgrade(float(query.get("body_s", 0)))
            else:
                status = int(query.get("status", self.statuses.get(url.path, 200)))
                self._answer(
                    status,
                    float(query.get("body_s", 0)),
                    int(query.get("bytes", 0)),
                    int(query.get("cut", 0)),
                )
        except ConnectionError:  # the client is gone
            self.close_connection = True

    def _answer(self, status: int, body_s: float, extra: int, cut: int) -> None:
        pieces = round(body_s / PIECE_S)
        self.send_response(status)
        self.send_header("X-Backend", self.name)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(extra + pieces + cut))
        self.end_headers()
        self.wfile.write(b"." * extra)
        for _ in range(pieces):
            time.sleep(PIECE_S)
            self.wfile.write(b".")
        self.close_connection = self.close_connection or cut > 0

    def _upgrade(self, open_s: float) -> None:
        self.send_response(101)
        self.send_header("X-Backend", self.name)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        until = time.monotonic() + open_s
        with contextlib.suppress(TimeoutError):
            while (left_s := until - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not (piece := self.connection.recv(65536)):
                    return
                self.connection.sendall(piece)

    def log_message(self, format: str, *args: object) -> None:
        pass


class CrowdServer(ThreadingHTTPServer):
    """Room for hundreds of connections at a time: a client without a place tries again a second later."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512


class Backend:
    """A server that answers with its name; `?sleep_s=` and `?status=` make it slow or broken.

    After the header it sends `?bytes=` at once, and then a body for `?body_s=`. `?cut=` announces this number
    of bytes more, and never sends them. A request for an upgrade gets one that stays open for the same time,
    and echoes its input. By path, `statuses` has the answers (default 200), `delays_s` the delays, and
    `holds` events to wait for. `headers` are added to every answer. Change them at any time. `received` has
    path, headers (in lower case) and body of each request.
    """

    def __init__(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self._tls = tls
        self.statuses: dict[str, int] = {}
        self.delays_s: dict[str, float] = {}
        self.holds: dict[str, threading.Event] = {}
        self.headers: dict[str, str] = {}
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self._connections: set[socket.socket] = set()
        self._listen(free_port())
        self.address = f"127.0.0.1:{self._server.server_port}"

    def _listen(self, port: int) -> None:
        shared = {
            "name": self.name, "statuses": self.statuses, "delays_s": self.delays_s, "holds": self.holds,
            "headers_sent": self.headers, "connections": self._connections, "received": self.received,
        }  # fmt: skip
        self._server = CrowdServer(("127.0.0.1", port), type("Handler", (_Handler,), shared))
        if self._tls:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and hang up; harmless when it has stopped."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restart(self) -> None:
        """Listen again, at the same address."""
        self._listen(self._server.server_port)
