"""Streams: responses sent piece by piece, and the set of open ones.

Their number is limited, and all end when the controller stops: a stopping server waits for its connections,
and a stream never ends on its own, so `Streams.end` ends them. After a client has left, nothing of its
response remains. Starlette's runs in a task group that keeps its error, and with it every frame. Each
departed reader would stay in memory until the garbage collector runs, which is rare in this process.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from fastapi import Response
from starlette.types import Receive, Scope, Send

from steelyard_controller.api.problems import retry_later

T = TypeVar("T")

# Each costs a name for each upstream. An open page has one; a hundred open pages are forgotten ones.
MAX_STREAMS = 100


class Ended(Exception):
    """The controller stops."""


class Streams:
    """The open streams, `count` of them."""

    def __init__(self, most: int = MAX_STREAMS) -> None:
        self._most = most
        self.count = 0
        self._waiting: set[asyncio.Task[Any]] = set()
        self._ended = False

    def refuse_if_full(self) -> None:
        """Raise a 503 problem when no further stream may begin."""
        if self._ended or self.count >= self._most:
            raise retry_later(f"{self.count} streams are open, the most there may be: close some", after_s=5)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Count a stream until the end of the block."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def wait(self, for_: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Return the result of `for_`; raise `Ended` at the controller's stop, TimeoutError if it is late."""
        waited = asyncio.create_task(for_)
        if self._ended:
            waited.cancel()
        self._waiting.add(waited)
        try:
            await asyncio.wait({waited}, timeout=timeout_s)
            if waited.cancelled() or self._ended:
                raise Ended
            if not waited.done():
                raise TimeoutError
            return waited.result()
        finally:
            self._waiting.discard(waited)
            waited.cancel()

    def end(self) -> None:
        """End every stream, and let no new one begin."""
        self._ended = True
        for waited in list(self._waiting):
            waited.cancel()


class StreamedResponse(Response):
    """Sends a generator's items, and closes it at the end or once the client has left."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        self._chunks = chunks
        self.status_code = status_code
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait((sending, leaving))
            await self._chunks.aclose()
        if not sending.cancelled():
            sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in self._chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
