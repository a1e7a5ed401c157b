"""A response that is sent as it comes into being, and of which nothing is left when its client has gone.

Starlette's runs in a task group that keeps the error it ended by, and with it every frame: each reader
that left stayed in memory until the garbage collector came by, which in this process is rare.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping

from fastapi import Response
from starlette.types import Receive, Scope, Send


class StreamedResponse(Response):
    """Sends what a generator yields, and closes it at the end or once the client has gone."""

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
