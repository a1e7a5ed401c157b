"""The open event streams: their number is limited, and all end when the controller stops.

A server that stops waits for its connections, and a stream never ends by
itself: so `Streams.end` ends them.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from steelyard_controller.api.problems import later

T = TypeVar("T")

# Each costs a name for each upstream. An open page has one; a hundred open pages are forgotten ones.
MOST = 100


class Ended(Exception):
    """The controller stops."""


class Streams:
    """The streams that are open, `count` of them."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.count = 0
        self._waiting: set[asyncio.Task[Any]] = set()
        self._ended = False

    def refuse_if_full(self) -> None:
        """Raise a 503 problem when no further stream may begin."""
        if self._ended or self.count >= self._most:
            raise later(f"{self.count} streams are open, the most there may be: close some", after_s=5)

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Count a stream until the end of the block."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def wait(self, for_: Coroutine[Any, Any, T], *, timeout_s: float | None = None) -> T:
        """Return the result of `for_`; raise `Ended` once the controller stops, TimeoutError when late."""
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
