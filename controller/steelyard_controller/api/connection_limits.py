"""Limits of the API's connections: their number, and their time to keep the controller waiting.

I/O around uvicorn's HTTP/1.1 protocol. By itself it waits for ever for the first byte
of a connection, for the rest of a request's head, and for a client that does
not read its answer. `body_limit.BodyLimit` limits bodies, uvicorn's own timeout idle
connections, `streams.Streams` event streams.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from steelyard_controller.log_once import LogRarely

log = logging.getLogger("steelyard.controller")


class ConnectionLimiter:
    """Counts the open connections of a server by client, and has their limits; one for all connections.

    connections         open at the same time; each costs a descriptor and some 10 kB
    of_one_client       of these, from one address; so one client alone cannot lock out all others
    head_s              seconds from the first byte (or the connection) to the end of a request's head
    unread_s            seconds within which a client must read some of what is sent to it
    """

    def __init__(
        self,
        *,
        # A cluster has a few dozen clients: load balancers, agents now and again, pages, Prometheus.
        connections: int = 1000,
        # All pages behind one proxy have one address: 100 streams, and the requests beside them.
        of_one_client: int = 250,
        # A head is one packet; the slowest line needs a second.
        head_s: float = 10.0,
        # Longer than any stall of a live line.
        unread_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.head_s = head_s
        self.unread_s = unread_s
        self._connections = connections
        self._of_one_client = of_one_client
        self._inside: Counter[str] = Counter()
        self._log_rarely = LogRarely(clock)

    @property
    def count(self) -> int:
        """Return how many connections are open."""
        return self._inside.total()

    def admit(self, client: str) -> bool:
        """Return whether one more connection of a client is allowed; it then counts until its release."""
        if self.count >= self._connections:
            return self._refuse(f"{self.count} connections to the API are open, the most there may be")
        if self._inside[client] >= self._of_one_client:
            return self._refuse(
                f"{client} has {self._inside[client]} connections to the API open, the most for one client"
            )
        self._inside[client] += 1
        return True

    def release(self, client: str) -> None:
        """Stop counting a connection of a client."""
        self._inside[client] -= 1
        if not self._inside[client]:
            del self._inside[client]

    def _refuse(self, why: str) -> bool:
        if self._log_rarely.is_due():
            log.warning("%s; more are closed at once", why, extra={"event": "connections"})
        return False


def protocol_limited_by(limiter: ConnectionLimiter) -> type[H11Protocol]:
    """Return the protocol class for `uvicorn.Config(http=...)` with `limiter`'s limits."""
    return type("Limited", (LimitedConnection,), {"_limiter": limiter})


class LimitedConnection(H11Protocol):
    """A connection that is closed if it keeps the controller waiting; made by `protocol_limited_by`."""

    _limiter: ConnectionLimiter

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **named)
        self._entered: str | None = None
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or close it at once if there are too many."""
        super().connection_made(transport)
        client = self.client[0] if self.client else "a socket"
        if not self._limiter.admit(client):
            transport.abort()
            return
        self._entered = client
        self._expect_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and release the connection."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        self._head = self._unread = None
        if self._entered is not None:
            self._limiter.release(self._entered)
            self._entered = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes; the timer of the head runs on until the head is complete."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._expect_a_head()
        elif self._head is not None:
            self._head.cancel()
            self._head = None

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to a malformed request; close the connection if an answer has already begun."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Otherwise the application's answer fails, with a traceback for each such request.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Wait for the client to read, at most `unread_s`."""
        super().pause_writing()
        self._expect_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop waiting: the client has read."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _expect_a_head(self) -> None:
        # Not restarted by each byte: a client with a byte now and then would keep a connection for ever.
        if self._head is None:
            self._head = self.loop.call_later(self._limiter.head_s, self.transport.abort)

    def _expect_reading(self, unread_bytes: int) -> None:
        self._unread = self.loop.call_later(self._limiter.unread_s, self._check_reading, unread_bytes)

    def _check_reading(self, before: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now < before:
            # A slow line, not a dead one: it gets as much time again.
            self._expect_reading(now)
        else:
            self.transport.abort()
