"""Small servers that keep their connections open, and hang up on requests when a test says so.

They speak HTTP/1.1, FastCGI, HTTP/2 as far as gRPC needs it, and uwsgi and SCGI, whose connections nginx
never keeps. After `warm`, nginx has one idle connection to each server.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

END_OF_HEAD = b"\r\n\r\n"

# FastCGI: the end of a request's input, and an answer with the end of the request (version 1, request 1).
FASTCGI_INPUT_ENDS = b"\x01\x05\x00\x01\x00\x00\x00\x00"
FASTCGI_HEAD = b"Status: 200 OK\r\n\r\n"
FASTCGI_ANSWER = (
    b"\x01\x06\x00\x01" + len(FASTCGI_HEAD).to_bytes(2, "big") + b"\x00\x00" + FASTCGI_HEAD
    + b"\x01\x06\x00\x01\x00\x00\x00\x00" + b"\x01\x03\x00\x01\x00\x08\x00\x00" + bytes(8)
)  # fmt: skip

# HTTP/2: types of frames, flags, and ":status: 200" from HPACK's static table.
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, ACK, END_HEADERS = 1, 1, 4
STATUS_200 = b"\x88"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class _Reader:
    """Reads one request after the other from a connection; False at its end."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._rest = b""

    def until(self, end: bytes) -> bytes:
        """Return what comes before `end`; empty if the connection ends."""
        while end not in self._rest:
            if not self._receive():
                return b""
        found, _, self._rest = self._rest.partition(end)
        return found or end

    def exactly(self, size: int) -> bytes:
        """Return this number of bytes; empty if the connection ends."""
        while len(self._rest) < size:
            if not self._receive():
                return b""
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _receive(self) -> bool:
        received = self.connection.recv(65536)
        self._rest += received
        return bool(received)


def _http(reader: _Reader) -> bytes | None:
    head = reader.until(END_OF_HEAD)
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:") and int(line.split(b":")[1]):
            reader.exactly(int(line.split(b":")[1]))
    return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if head else None


def _fastcgi(reader: _Reader) -> bytes | None:
    return FASTCGI_ANSWER if reader.until(FASTCGI_INPUT_ENDS) else None


def _grpc(reader: _Reader) -> bytes | None:
    # nginx keeps no connection on which it still has to send its ACK at the end of the answer.
    acknowledged, ended = True, 0
    while not (acknowledged and ended):
        head = reader.exactly(9)
        if not head:
            return None
        if PREFACE.startswith(head):
            reader.exactly(len(PREFACE) - len(head))
            reader.connection.sendall(_frame(SETTINGS, 0, 0))
            acknowledged = False
            continue
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        size = int.from_bytes(head[:3], "big")
        if size and not reader.exactly(size):
            return None
        if kind == SETTINGS and flags & ACK:
            acknowledged = True
        elif kind == SETTINGS:
            reader.connection.sendall(_frame(SETTINGS, ACK, 0))
        elif kind in (DATA, HEADERS) and flags & END_STREAM:
            ended = stream
    return _frame(HEADERS, END_HEADERS | END_STREAM, ended, STATUS_200)


def _cgi(reader: _Reader) -> bytes | None:
    return FASTCGI_HEAD if reader.exactly(1) else None


PROTOCOLS: dict[str, Callable[[_Reader], bytes | None]] = {
    "proxy": _http, "fastcgi": _fastcgi, "grpc": _grpc, "uwsgi": _cgi, "scgi": _cgi,
}  # fmt: skip
NEVER_KEPT = ("uwsgi", "scgi")


class KeepsConnections:
    """A server; `received` has, for each request, whether it came over a connection used before.

    It answers, and keeps the connection. While `hangs_up` is set, it hangs up on each request without an
    answer. While `hangs_up_on_used` is set, it does so if the connection was used before: nginx cannot tell
    this from a connection that was closed while it was idle.
    """

    def __init__(self, protocol: str = "proxy") -> None:
        self._read = PROTOCOLS[protocol]
        self._is_kept = protocol not in NEVER_KEPT
        self.received: list[bool] = []
        self.hangs_up = self.hangs_up_on_used = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # stopped
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        self._open.add(connection)
        reader, used = _Reader(connection), False
        with connection, contextlib.suppress(OSError):
            while answer := self._read(reader):
                self.received.append(used)
                if self.hangs_up or (self.hangs_up_on_used and used):
                    break
                connection.sendall(answer)
                used = True
                if not self._is_kept:
                    break
        self._open.discard(connection)

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def keeping(count: int, protocol: str = "proxy") -> Iterator[list[KeepsConnections]]:
    """Run servers."""
    servers = [KeepsConnections(protocol) for _ in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


def warm(servers: list[KeepsConnections], ask: Callable[[], int]) -> None:
    """Have nginx keep a connection to each server; `ask` sends a request and returns the status.

    The picker must choose each server in turn.
    """
    for server in servers:
        server.hangs_up = server.hangs_up_on_used = False
    # A connection that is dead already costs its server a turn.
    for _ in range(3):
        for server in servers:
            server.received.clear()
        for _ in servers:
            assert ask() == 200
        if all(len(server.received) == 1 for server in servers):
            break
    for server in servers:
        assert len(server.received) == 1, [one.received for one in servers]
        server.received.clear()


def sends(servers: list[KeepsConnections]) -> list[int]:
    """Return how many requests each server got since the last call, the greatest number first."""
    counts = [len(server.received) for server in servers]
    for server in servers:
        server.received.clear()
    return sorted(counts, reverse=True)
