"""TCP proxies for tests: one that can be cut or made to hang, one that records writes to Memcached."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from steelyard_protocol import signature, weight_table
from steelyard_protocol.weight_table import WeightTable

_STORING = re.compile(rb"(?:set|add|replace|cas) (\S+) \d+ -?\d+ (\d+)(?: \d+)?(?: noreply)?\r\n")


class Proxy:
    """Passes bytes on between its clients and `target`, a port of 127.0.0.1."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._flow = threading.Event()
        self._flow.set()
        self._is_cut = False
        self.sent = bytearray()
        """All that the clients sent."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port to connect to."""
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End all connections, and every new one at once."""
        self._is_cut = True
        self._end_all()

    def hang(self) -> None:
        """Accept connections and bytes, and answer nothing."""
        self._flow.clear()

    def mend(self) -> None:
        """Pass everything on again; bytes held back until now come late."""
        self._is_cut = False
        self._flow.set()

    def close(self) -> None:
        """End it."""
        self.cut()
        self._flow.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # This ends the wait for the next one.
        self._listener.close()

    def _end_all(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flow.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._sockets += [client, server]
        if self._is_cut:  # It was cut while connecting.
            self._end_all()
            return
        exchange = self.exchange()
        for ends in ((client, server, exchange.request), (server, client, exchange.answer)):
            threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, note: object) -> None:
        try:
            while data := source.recv(65536):
                self._flow.wait()
                note(data)  # type: ignore[operator]
                target.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, target):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def exchange(self) -> "Exchange":
        """Return the observer of one connection."""
        return Exchange(self)


class Exchange:
    """Observes one connection."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def request(self, data: bytes) -> None:
        """Observe bytes from a client."""
        self._proxy.sent += data

    def answer(self, data: bytes) -> None:
        """Observe bytes from the server."""


@dataclass(frozen=True)
class Write:
    """A write of a weight table to Memcached, and whether it took effect."""

    writer: str
    table: WeightTable
    stored: bool

    @property
    def order(self) -> tuple[int, int]:
        """Return the table's order."""
        return self.table.order


@dataclass
class Writes:
    """All the weight tables, in the order of Memcached's answers."""

    all: list[Write] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stored(self) -> list[Write]:
        """Return those that took effect."""
        return [write for write in list(self.all) if write.stored]

    def of(self, writer: str) -> list[Write]:
        """Return one writer's requests, with or without success."""
        return [write for write in list(self.all) if write.writer == writer]


class Recorder(Proxy):
    """A proxy in front of Memcached for one writer; all recorders of a test share `writes`.

    Tables are passed on only when Memcached has answered about the previous ones, from any writer. Tables
    of several upstreams come at once.
    """

    def __init__(self, target: int, writer: str, writes: Writes, key: bytes | None = None) -> None:
        self.writer, self.writes, self.key = writer, writes, key
        super().__init__(target)

    def exchange(self) -> Exchange:
        """Return the observer of one connection."""
        return _Recorded(self)


class _Recorded(Exchange):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._recorder = recorder
        self._asked = b""
        self._tables: list[WeightTable] = []
        self._lock = threading.Lock()

    def request(self, data: bytes) -> None:
        self._asked += data
        while self._asked:
            line, end, _ = self._asked.partition(b"\r\n")
            if not end:
                return
            length = len(line) + 2
            storing = _STORING.fullmatch(line + end)
            if storing is not None:
                value_at, length = length, length + int(storing[2]) + 2
                if len(self._asked) < length:
                    return
                if b":weights:" in storing[1]:
                    table = signature.read(
                        self._recorder.key, self._asked[value_at : length - 2], weight_table.decode
                    )
                    assert isinstance(table, WeightTable), table
                    # Passed on with this chunk: no other writer has its turn until it is answered.
                    with self._lock:
                        if not self._tables:
                            self._recorder.writes.turn.acquire(timeout=5)
                        self._tables.append(table)
            self._asked = self._asked[length:]

    def answer(self, data: bytes) -> None:
        # A line for each table, in one piece: they are short, and there are no other requests beside them.
        for line in data.splitlines():
            with self._lock:
                if not self._tables:
                    return
                write = Write(self._recorder.writer, self._tables.pop(0), line == b"STORED")
                self._recorder.writes.all.append(write)
                if not self._tables:
                    self._recorder.writes.turn.release()


@contextmanager
def closing(*proxies: Proxy) -> Iterator[None]:
    """End the proxies with the block."""
    try:
        yield
    finally:
        for proxy in proxies:
            proxy.close()
