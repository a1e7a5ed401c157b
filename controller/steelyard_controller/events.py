"""The controller's events and their subscribers, each with a bounded queue: a slow one costs little."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# Half a minute of ticks of one upstream; a subscriber that is further behind loses the oldest ones.
MOST_WAITING = 32


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its kind, its upstream (None: the whole controller), its document as JSON."""

    kind: Literal["tick", "change", "role"]
    upstream: str | None
    data: bytes


class Listeners:
    """The subscribers' queues; all in one event loop."""

    def __init__(self) -> None:
        self._queues: dict[asyncio.Queue[Event], str | None] = {}

    def any_for(self, upstream: str) -> bool:
        """Tell whether an upstream has a subscriber."""
        return any(wanted in (None, upstream) for wanted in self._queues.values())

    def publish(self, event: Event) -> None:
        """Put an event into the queue of each subscriber of its upstream; a full queue loses its oldest."""
        for queue, wanted in self._queues.items():
            if event.upstream is None or wanted in (None, event.upstream):
                if queue.full():
                    queue.get_nowait()
                queue.put_nowait(event)

    @contextlib.contextmanager
    def subscribe(self, upstream: str | None) -> Iterator[asyncio.Queue[Event]]:
        """Yield a queue of the events of one upstream, or with None of all, until the end of the block."""
        queue: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)
        self._queues[queue] = upstream
        try:
            yield queue
        finally:
            del self._queues[queue]
