"""The open loop's HTTP connections: one for each request under way, kept for later ones."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

import httptools

from steelyard_loadtest.generators.open_loop_requests import Numbered, Same
from steelyard_loadtest.generators.tally import RESET, TIMEOUT, Request, of_error

MOST_CONNECTIONS = 8192
"""A balancer takes two of some 28,000 ports for each. A request that waits for one is late."""


class Connection(asyncio.Protocol):
    """Sends one request at a time; its owner is informed of each one's outcome.

    It understands answers with a length or in chunks, as all servers and balancers here send them. An answer
    that ends with its connection counts as reset.
    """

    def __init__(self, owner: "Pool") -> None:
        self._owner = owner
        self._body = b""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._error: Exception | None = None
        self._keeps = True
        self._answers = 0
        self._answering = False

    @property
    def usable(self) -> bool:
        """Return whether a request may be sent on it."""
        return self._keeps and self._transport is not None and not self._transport.is_closing()

    @property
    def was_stale(self) -> bool:
        """Return whether a request that was lost with it may be sent again.

        RFC 9112, section 9.3.1: the server closed an idle connection at the moment of the request. The
        connection was used before, and no part of an answer arrived.
        """
        return self._answers > 0 and not self._answering

    def send(self, request: bytes) -> None:
        """Send a request, on a connection that is made."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Close it, even with a request under way; the owner is informed."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to send."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Parse the data; anything else than HTTP ends the connection."""
        self._answering = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._error = error
            self.close()

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body, for the parser."""
        self._body += data

    def on_message_complete(self) -> None:
        """Hand over the answer, for the parser."""
        self._answering = False
        self._answers += 1
        # Only here, because the parser forgets it with the message.
        self._keeps = self._parser.should_keep_alive()
        body, self._body = self._body, b""
        self._owner.answered(self, self._parser.get_status_code(), body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Inform the owner."""
        error = self._error or exc
        self._owner.lost(self, of_error(error) if error else RESET)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that was due and has no answer yet."""

    number: int
    due_s: float
    connection: Connection | None = None


class Pool:
    """Sends requests for the URL, by default the same one repeatedly; calls `ended` when a request ends."""

    def __init__(
        self,
        url: str,
        ended: Callable[[Request], None],
        *,
        requests: type[Same] | type[Numbered] = Same,
        connection: Callable[["Pool"], Connection] = Connection,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._requests = requests(parts.netloc, target)
        self._ended, self._connection = ended, connection
        self._sent = 0
        self._loop = asyncio.get_running_loop()
        # In order of their beginning: the first has waited longest, and the last was idle for the shortest
        # time.
        self._under_way: dict[Exchange, None] = {}
        self._idle: dict[Connection, None] = {}
        self._busy: dict[Connection, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._connections = 0
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """Return the number of requests without an answer."""
        return len(self._under_way)

    def send(self, due_s: float) -> None:
        """Send a request that was due at a moment of time.monotonic's clock."""
        exchange = Exchange(number=self._sent, due_s=due_s)
        self._sent += 1
        self._under_way[exchange] = None
        self._send(exchange)

    def give_up(self, due_before_s: float, failure: str = TIMEOUT) -> None:
        """End all requests under way that were due before a moment."""
        for exchange in list(self._under_way):
            if exchange.due_s >= due_before_s:
                break
            self._end(exchange, failure)
            if exchange.connection is not None:
                exchange.connection.close()

    def answered(self, connection: Connection, status: int, body: bytes) -> None:
        """End the connection's request, and use the connection for the next."""
        exchange = self._busy.pop(connection, None)
        if exchange is not None:
            self._end(exchange, self._requests.failure(exchange.number, status, body))
        self._use(connection)

    def lost(self, connection: Connection, failure: str) -> None:
        """End the connection's request, or send it on another if it never reached the server."""
        self._idle.pop(connection, None)
        exchange = self._busy.pop(connection, None)
        self._one_connection_less()
        if exchange is None or exchange not in self._under_way:
            return
        if connection.was_stale:
            self._send(exchange)
        else:
            self._end(exchange, failure)

    def _send(self, exchange: Exchange) -> None:
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.usable:
                self._put_on(connection, exchange)
                return
        if self._connections < MOST_CONNECTIONS:
            self._connections += 1
            task = self._loop.create_task(self._connect(exchange))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            self._queue.append(exchange)

    async def _connect(self, exchange: Exchange) -> None:
        try:
            _, connection = await self._loop.create_connection(
                lambda: self._connection(self), self._host, self._port
            )
        except OSError as error:
            self._end(exchange, of_error(error))
            self._one_connection_less()
            return
        if exchange in self._under_way:
            self._put_on(connection, exchange)
        else:
            self._use(connection)

    def _put_on(self, connection: Connection, exchange: Exchange) -> None:
        exchange.connection = connection
        self._busy[connection] = exchange
        connection.send(self._requests.request(exchange.number))

    def _use(self, connection: Connection) -> None:
        if not connection.usable:
            connection.close()
            return
        exchange = self._next_in_queue()
        if exchange is None:
            self._idle[connection] = None
        else:
            self._put_on(connection, exchange)

    def _one_connection_less(self) -> None:
        self._connections -= 1
        exchange = self._next_in_queue()
        if exchange is not None:
            self._send(exchange)

    def _next_in_queue(self) -> Exchange | None:
        while self._queue:
            exchange = self._queue.popleft()
            if exchange in self._under_way:
                return exchange
        return None

    def _end(self, exchange: Exchange, failure: str) -> None:
        # A request that was given up may still be answered, or lost.
        if exchange in self._under_way:
            del self._under_way[exchange]
            latency_ms = (time.monotonic() - exchange.due_s) * 1000
            self._ended(Request(due_s=exchange.due_s, latency_ms=latency_ms, failure=failure))
