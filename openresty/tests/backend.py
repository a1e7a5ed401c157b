"""A small server behind the nginx under test. It answers with its name, and can be slow or broken."""

import contextlib
import socket
import ssl
import threading
import time
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from socketserver import StreamRequestHandler
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from testing.daemons import free_port
from testing.handler_server import Prompt

PIECE_S = 0.1  # between two bytes of a slow body

STATUSES = frozenset(HTTPStatus)
METHODS = ("GET", "POST", "PURGE")


class _Handler(StreamRequestHandler):
    # Not http.server's: that takes several times as long for a request.
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

    def handle(self) -> None:
        """Answer one request after the other."""
        self._goes_on = True
        with contextlib.suppress(ConnectionError):  # the client is gone
            while self._goes_on and (line := self.rfile.readline()):
                self._take(line.decode("latin-1"))

    def _take(self, line: str) -> None:
        try:
            method, path, version = line.split()
        except ValueError:
            self._goes_on = False
            self.wfile.write(self._head(400, {"Content-Length": "0", "Connection": "close"}))
            return
        headers: dict[str, str] = {}
        while (field := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != "":
            name, _, value = field.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        kept = headers.get("connection", "keep-alive" if version == "HTTP/1.1" else "close").lower()
        self._goes_on = kept != "close" and method in METHODS
        self.received.append((path, headers, body))
        url = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path in self.holds:
            self.holds[url.path].wait()
        time.sleep(float(query.get("sleep_s", self.delays_s.get(url.path, 0))))
        if "upgrade" in headers:
            self._upgrade(float(query.get("body_s", 0)))
        else:
            status = int(query.get("status", self.statuses.get(url.path, 200)))
            self._answer(
                status if method in METHODS else 501,
                float(query.get("body_s", 0)),
                int(query.get("bytes", 0)),
                int(query.get("cut", 0)),
            )

    def _head(self, status: int, headers: dict[str, str]) -> bytes:
        reason = HTTPStatus(status).phrase if status in STATUSES else ""
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 {status} {reason}\r\nX-Backend: {self.name}\r\n{fields}\r\n".encode("latin-1")

    def _answer(self, status: int, body_s: float, extra: int, cut: int) -> None:
        pieces = round(body_s / PIECE_S)
        length = {"Content-Length": str(extra + pieces + cut)}
        self.wfile.write(self._head(status, self.headers_sent | length) + b"." * extra)
        for _ in range(pieces):
            time.sleep(PIECE_S)
            self.wfile.write(b".")
        self._goes_on = self._goes_on and cut == 0

    def _upgrade(self, open_s: float) -> None:
        self.wfile.write(self._head(101, {"Upgrade": "websocket", "Connection": "Upgrade"}))
        self._goes_on = False
        until = time.monotonic() + open_s
        with contextlib.suppress(TimeoutError):
            while (left_s := until - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not (piece := self.connection.recv(65536)):
                    return
                self.connection.sendall(piece)


class CrowdServer(Prompt, ThreadingHTTPServer):
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
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
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
