"""An ASGI application that reports its server's load (ORCA) and its requests in flight in its responses.

    steelyard-agent --orca /run/steelyard/orca ...
    STEELYARD_ORCA=/run/steelyard/orca uvicorn asgi:application --port 8000

`LoadReport` is a middleware for FastAPI, Starlette, Django and other ASGI frameworks.
"""

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

READ_EVERY_S = 0.25

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[dict[str, Any], Callable[[], Awaitable[Message]], Send], Awaitable[None]]


class LoadReport:
    """Wraps an application: its responses have the agent's newest value, the rate and requests in flight."""

    def __init__(self, application: Application, file: Path) -> None:
        self._application, self._file = application, file
        self._header: tuple[bytes, bytes] | None = None
        self._since_s, self._requests, self._in_flight = time.monotonic(), 0, 0

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Message]], send: Send
    ) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return await self._application(scope, receive, send)
        header = self._counted()

        async def send_with_report(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = [(b"x-steelyard-in-flight", b"%d" % self._in_flight)]
                if header:
                    said.append(header)
                message = {**message, "headers": [*message.get("headers", ()), *said]}
            await send(message)

        self._in_flight += 1
        try:
            await self._application(scope, receive, send_with_report)
        finally:
            self._in_flight -= 1

    def _counted(self) -> tuple[bytes, bytes] | None:
        self._requests += 1
        past_s = time.monotonic() - self._since_s
        if past_s >= READ_EVERY_S:
            try:
                agent = self._file.read_text(encoding="ascii").strip()  # from a tmpfs: it takes microseconds
                value = f"{agent},rps_fractional={self._requests / past_s:.3f}"
                self._header = (b"endpoint-load-metrics", value.encode())
            except OSError:  # the agent has ended, or has no figures
                self._header = None
            self._since_s, self._requests = time.monotonic(), 0
        return self._header


async def hello(scope: dict[str, Any], _receive: Callable[[], Awaitable[Message]], send: Send) -> None:
    """Answer a request, as an application does."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello\n"})


application = LoadReport(hello, Path(os.environ.get("STEELYARD_ORCA", "/run/steelyard/orca")))
