"""A bounded pool of workers in front of the demo server's routes, as PHP-FPM or Gunicorn have one.

A request of the load holds a worker until it is answered, whether it computes or
waits; the others wait for one in the order in which they came. So a pool can be
full while the CPU idles (`/sleep`). `/metrics` says how full, and takes no worker:

    demo_workers_busy / demo_workers
"""

import asyncio

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from steelyard_loadtest.server.answered import COUNTED

METRICS = "/metrics"


class WorkerPool:
    """Wraps an ASGI application: at most `size` requests of the load are in it at a time."""

    def __init__(self, app: ASGIApp, size: int) -> None:
        self._app, self._size = app, size
        self._free = asyncio.Semaphore(size)
        self._busy = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when a worker is free."""
        if scope["type"] == "http" and scope["path"] == METRICS:
            await PlainTextResponse(self._metrics())(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] not in COUNTED:
            await self._app(scope, receive, send)
            return
        async with self._free:
            self._busy += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._busy -= 1

    def _metrics(self) -> str:
        gauges = (
            ("demo_workers_busy", "Workers that have a request.", self._busy),
            ("demo_workers", "Workers in all.", self._size),
        )
        return "".join(
            f"# HELP {name} {about}\n# TYPE {name} gauge\n{name} {value}\n" for name, about, value in gauges
        )
