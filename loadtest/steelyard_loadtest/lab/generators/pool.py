"""The open loop's connections: as many as there are requests under way, kept for those that follow."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from steelyard_loadtest.lab.generators.connection import Connection, Owner
from steelyard_loadtest.lab.generators.failures import TIMEOUT, of_error
from steelyard_loadtest.lab.generators.questions import Questions, Same
from steelyard_loadtest.lab.generators.tally import Request

MOST_CONNECTIONS = 8192
"""A balancer takes two of some 28,000 ports for each. Who waits for one is late from its due time."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request that was due and has no answer yet."""

    number: int
    due_s: float
    connection: Connection | None = None


class Pool:
    """Sends the questions, by default the URL's again and again; `ended` hears of each when it is over."""

    def __init__(
        self,
        url: str,
        ended: Callable[[Request], None],
        *,
        questions: Questions | None = None,
        connection: Callable[[Owner], Connection] = Connection,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._questions = questions or Same(parts.netloc, target)
        self._ended, self._connection = ended, connection
        self._sent = 0
        self._loop = asyncio.get_running_loop()
        # In order of their beginning: the first waits longest, the last was idle for the shortest time.
        self._under_way: dict[Exchange, None] = {}
        self._idle: dict[Connection, None] = {}
        self._busy: dict[Connection, Exchange] = {}
        self._queue: deque[Exchange] = deque()
        self._connections = 0
        self._connecting: set[asyncio.Task[None]] = set()

    @property
    def under_way(self) -> int:
        """Return how many requests have no answer yet."""
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
            self._end(exchange, self._questions.failure(exchange.number, status, body))
        self._use(connection)

    def lost(self, connection: Connection, failure: str) -> None:
        """End the connection's request, or send it on another when it never reached the server."""
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
        connection.send(self._questions.request(exchange.number))

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
        # One that was given up may still be answered, or lost.
        if exchange in self._under_way:
            del self._under_way[exchange]
            latency_ms = (time.monotonic() - exchange.due_s) * 1000
            self._ended(Request(due_s=exchange.due_s, latency_ms=latency_ms, failure=failure))
