"""One kept HTTP connection of the open loop: a request at a time, its answer read to the end."""

import asyncio
from typing import Protocol, cast

import httptools

from steelyard_loadtest.lab.generators.failures import RESET, of_error


class Owner(Protocol):
    """Who opened the connection, and hears what becomes of its requests."""

    def answered(self, connection: "Connection", status: int, body: bytes) -> None:
        """Take the answer to the request under way, all of which has been read."""

    def lost(self, connection: "Connection", failure: str) -> None:
        """Learn that the connection has gone, with its request if one was under way."""


class Connection(asyncio.Protocol):
    """Sends one request at a time.

    It understands answers that tell their length or come in chunks, as all servers
    and balancers here send them; one that ends with its connection counts as reset.
    """

    def __init__(self, owner: Owner) -> None:
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
        """Say whether a request may be sent on it."""
        return self._keeps and self._transport is not None and not self._transport.is_closing()

    @property
    def was_stale(self) -> bool:
        """Say whether a request that was lost with it may be sent again.

        RFC 9112, section 9.3.1: the server closed an idle connection at the moment when
        the request was sent. It was used before, and nothing of an answer came.
        """
        return self._answers > 0 and not self._answering

    def send(self, request: bytes) -> None:
        """Send a request, on a connection that is made."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Close it, whatever is under way; the owner hears of it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to send."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Read on; what is no HTTP ends the connection."""
        self._answering = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._error = error
            self.close()

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body: the parser calls it."""
        self._body += data

    def on_message_complete(self) -> None:
        """Hand over the answer: the parser calls it."""
        self._answering = False
        self._answers += 1
        # Only here: the parser forgets it with the message.
        self._keeps = self._parser.should_keep_alive()
        body, self._body = self._body, b""
        self._owner.answered(self, self._parser.get_status_code(), body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner."""
        error = self._error or exc
        self._owner.lost(self, of_error(error) if error else RESET)
