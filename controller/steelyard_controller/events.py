"""The controller's events and their subscribers: every change in order, but only the newest overview.

No change may be missed. The last `MOST_KEPT` changes of declarations and roles are kept and numbered, so a
subscriber that is slow or was away goes on from its last one. If that is too old, it gets the number of
missed ones. A new overview replaces the previous one, so a slow subscriber costs one name for each upstream.
"""

import asyncio
import contextlib
import json
import re
import secrets
from collections import Counter, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Literal

# Some 300 bytes each. A script that declares hundreds of upstreams makes as many changes.
MOST_KEPT = 2000

ID = re.compile(r"([0-9a-f]{8})-(\d{1,15})")


@dataclass(frozen=True, slots=True)
class Event:
    """An event: kind, upstream (None: the whole controller), document as JSON, id (a tick has none)."""

    kind: Literal["tick", "change", "role", "gap"]
    upstream: str | None
    data: bytes
    id: str | None = None


class Listeners:
    """The subscribers, all in one event loop; `boot` distinguishes this process's numbers from others'."""

    def __init__(self, boot: str | None = None, most_kept: int = MOST_KEPT) -> None:
        self._boot = boot or secrets.token_hex(4)
        self._kept: deque[Event] = deque(maxlen=most_kept)
        self._last = 0
        self.missed = 0
        """Changes reported to subscribers as missed."""
        self._overviews: dict[tuple[str, Hashable], bytes] = {}
        self._subscribers: list[Subscriber] = []
        self._wanted: Counter[str | None] = Counter()

    @property
    def readers(self) -> int:
        """Return the number of subscribers."""
        return len(self._subscribers)

    def any_for(self, upstream: str) -> bool:
        """Return whether an upstream has a subscriber."""
        return upstream in self._wanted or None in self._wanted

    def views_of(self, upstream: str) -> set[Hashable]:
        """Return the views of an upstream's subscribers; None is the whole overview."""
        return {each.view for each in self._subscribers if each.wants(upstream)}

    def publish(self, kind: Literal["change", "role"], upstream: str | None, data: bytes) -> None:
        """Send a change to the subscribers of the upstream (None: all), and to those that come back later."""
        self._last += 1
        self._kept.append(Event(kind, upstream, data, self.id_of(self._last)))
        for each in self._subscribers:
            each.wake()

    def show(self, upstream: str, overview: bytes, view: Hashable = None) -> None:
        """Send the newest overview of an upstream, JSON, to the subscribers with this view."""
        for each in self._subscribers:
            if each.wants(upstream) and each.view == view:
                self._overviews[upstream, view] = overview
                each.due.setdefault(upstream)
                each.wake()

    @contextlib.contextmanager
    def subscribe(
        self, upstream: str | None, *, view: Hashable = None, after: str | None = None
    ) -> "Iterator[Subscriber]":
        """Yield a subscriber of one upstream, or with None of all, until the end of the block.

        view    the part of the overviews that it gets; None: all
        after   the id of its last event, from this controller or another one; None: it is new
        """
        last_number = self._last if after is None else self._number(after)
        subscriber = Subscriber(self, upstream, view, last_number)
        known = (name for name, of in self._overviews if of == view and subscriber.wants(name))
        subscriber.due |= dict.fromkeys(known)
        self._subscribers.append(subscriber)
        self._wanted[upstream] += 1
        try:
            yield subscriber
        finally:
            self._subscribers.remove(subscriber)
            self._wanted -= Counter([upstream])
            for name, of in [*self._overviews]:
                if of not in self.views_of(name):
                    del self._overviews[name, of]

    def overview(self, upstream: str, view: Hashable = None) -> bytes | None:
        """Return the newest overview of an upstream; None: there is none."""
        return self._overviews.get((upstream, view))

    def next_after(self, number: int | None, wanted: str | None) -> tuple[int, Event | None]:
        """Return the next change of an upstream after a number, or None, and the number to go on from.

        After an unknown number (None), or one whose successors are no longer kept, the next event is a gap.
        """
        first = self._last - len(self._kept) + 1
        if number is None or not first - 1 <= number <= self._last:
            missed = None if number is None or number > self._last else first - 1 - number
            self.missed += missed or 0
            return first - 1, Event(
                "gap", None, json.dumps({"missed": missed}).encode(), self.id_of(first - 1)
            )
        for at in range(number + 1 - first, len(self._kept)):
            event = self._kept[at]
            if event.upstream is None or wanted in (None, event.upstream):
                return first + at, event
        return self._last, None

    def id_of(self, number: int) -> str:
        """Return the id of the event of this number."""
        return f"{self._boot}-{number}"

    def _number(self, id: str) -> int | None:
        read = ID.fullmatch(id)
        return int(read[2]) if read is not None and read[1] == self._boot else None


class Subscriber:
    """One client's position: the number of its last change, and the upstreams with a due overview."""

    def __init__(
        self, listeners: Listeners, upstream: str | None, view: Hashable, last_number: int | None
    ) -> None:
        self.upstream, self.view = upstream, view
        self.due: dict[str, None] = {}
        self._listeners = listeners
        self._last_number = last_number
        self._woken = asyncio.Event()

    @property
    def id(self) -> str | None:
        """Return the id of its last change; None if that is another process's."""
        return None if self._last_number is None else self._listeners.id_of(self._last_number)

    def wants(self, upstream: str) -> bool:
        """Return whether it gets the events of an upstream."""
        return self.upstream in (None, upstream)

    def wake(self) -> None:
        """Make `next` check for events."""
        self._woken.set()

    async def next(self) -> Event:
        """Return the next event when there is one: changes first, then the overview that is due longest."""
        while True:
            self._last_number, event = self._listeners.next_after(self._last_number, self.upstream)
            if event is not None:
                return event
            while self.due:
                upstream = next(iter(self.due))
                del self.due[upstream]
                overview = self._listeners.overview(upstream, self.view)
                if overview is not None:
                    return Event("tick", upstream, overview)
            self._woken.clear()
            await self._woken.wait()
