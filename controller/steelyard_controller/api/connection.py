"""How long a connection to the API may keep the controller waiting, and its way in and out by the door.

I/O around uvicorn's HTTP/1.1 protocol, which waits for ever: for the first byte
of a connection, for the rest of a request's head, and for a client that does
not read its answer. Bodies have `layers.Limited`, idle connections uvicorn's
own timeout, event streams `streams.Streams`.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from steelyard_controller.api.door import Door


def through(door: Door) -> type[H11Protocol]:
    """Return the protocol of connections that come in by `door`: what `uvicorn.Config(http=...)` takes."""

    class Through(Guarded):
        _door = door

    return Through


class Guarded(H11Protocol):
    """A connection that is closed when it keeps the controller waiting; made by `through`."""

    _door: Door

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments, **named)
        self._entered: str | None = None
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in, or hang up."""
        super().connection_made(transport)
        client = self.client[0] if self.client else "a socket"
        if not self._door.enter(client):
            transport.abort()
            return
        self._entered = client
        self._expect_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        for timer in (self._head, self._unread):
            if timer is not None:
                timer.cancel()
        self._head = self._unread = None
        if self._entered is not None:
            self._door.leave(self._entered)
            self._entered = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those that are no whole head leave the time for it running."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._expect_a_head()
        elif self._head is not None:
            self._head.cancel()
            self._head = None

    def send_400_response(self, msg: str) -> None:
        """Say that a request is broken; an answer to its beginning would come too late."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Else what the application answers fails, with a traceback for each such request.
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def pause_writing(self) -> None:
        """Wait for the client to read, and not for ever."""
        super().pause_writing()
        self._expect_reading(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _expect_a_head(self) -> None:
        # Not begun anew with each byte: a byte now and again is what keeps a connection for ever.
        if self._head is None:
            self._head = self.loop.call_later(self._door.limits.head_s, self.transport.abort)

    def _expect_reading(self, unread_bytes: int) -> None:
        self._unread = self.loop.call_later(self._door.limits.unread_s, self._look, unread_bytes)

    def _look(self, before: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now < before:
            # A slow line, not a dead one.
            self._expect_reading(now)
        else:
            self.transport.abort()
