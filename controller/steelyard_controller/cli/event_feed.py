"""The events of one upstream, read from `GET /v1/events` in a thread.

After a lost connection it connects again, to the first controller that answers. While the controllers have
no place for one more stream, it asks for the overview every few seconds, and now and then for a stream.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError

from steelyard_controller.cli import error_answers
from steelyard_controller.cli.api_client import Controllers, path
from steelyard_controller.cli.api_documents import Change, Overview, Service
from steelyard_controller.cli.exit_status import Busy, Exit, Failure

PATH = "/v1/events"

# A takeover needs some seconds; one attempt a second costs little.
RETRY_S = 1.0

# Without a place for its stream. An overview costs the controller as much as a tick of a stream does.
ASK_S = 2.0
TRY_STREAM_S = 10.0

# How long to wait for the thread to end.
PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Tick:
    """An upstream's overview after a tick, and its bytes."""

    overview: Overview
    body: bytes


Event = Tick | Service | str | Failure
"""A tick; the leader and its faults; a line for a person (a change, a lost connection); or the feed's end."""


class Feed:
    """Follows an upstream in a thread for as long as its block runs; `deliver` is called in that thread."""

    def __init__(self, controllers: Controllers, upstream: str, deliver: Callable[[Event], None]) -> None:
        self._controllers = controllers
        self._upstream = upstream
        self._deliver = deliver
        self._ending = threading.Event()
        self._connected: socket.socket | None = None
        self._noted = ""
        self._refused = False
        self._newest: tuple[int, int] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        connected = self._connected
        if connected is not None:
            # This ends the thread's read. Not SSLSocket's shutdown: it would drop the session being read.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)
        # A thread in the middle of connecting ends with the process.
        self._thread.join(PATIENCE_S)

    def _follow(self) -> None:
        known = False
        try:
            while not self._ending.is_set():
                try:
                    if self._refused:
                        self._ask()
                    with self._controllers.stream(PATH, upstream=self._upstream) as (url, answer):
                        known, self._noted = True, ""
                        if self._refused:
                            self._deliver("the event stream is open again")
                        self._refused = False
                        self._read(url, answer)
                    self._note(f"{url} ended the connection: connecting again")
                except Busy as busy:
                    if not self._refused:
                        self._note(f"{busy}; asking every {ASK_S:g} s until there is a place")
                    known = self._refused = True
                    continue
                except Failure as failure:
                    if not known or failure.status != Exit.UNREACHABLE:
                        raise
                    self._note(f"{failure}; trying again")
                except (httpx.TransportError, SSEError) as error:
                    cause = "nothing came for a while" if isinstance(error, httpx.ReadTimeout) else "it broke"
                    self._note(f"the connection to {self._controllers.url}: {cause}; connecting again")
                self._ending.wait(RETRY_S)
        except Failure as failure:
            self._deliver(failure)

    def _ask(self) -> None:
        """Deliver overviews without a stream, for `TRY_STREAM_S`."""
        for _ in range(round(TRY_STREAM_S / ASK_S)):
            answer = self._controllers.get(Overview, path("upstreams", self._upstream))
            order = (answer.document.term, answer.document.generation)
            if order != self._newest:
                self._newest = order
                self._deliver(Tick(answer.document, answer.body))
            if self._ending.wait(ASK_S):
                return

    def _read(self, url: str, answer: httpx.Response) -> None:
        self._connected = answer.extensions["network_stream"].get_extra_info("socket")
        try:
            if not self._ending.is_set():
                for event in EventSource(answer).iter_sse():
                    _deliver(url, self._upstream, event, self._deliver)
        finally:
            self._connected = None

    def _note(self, text: str) -> None:
        # Noted once, not at every attempt.
        if not self._ending.is_set() and text != self._noted:
            self._noted = text
            self._deliver(text)


def _deliver(url: str, upstream: str, event: ServerSentEvent, deliver: Callable[[Event], None]) -> None:
    if event.event == "tick":
        deliver(Tick(error_answers.document(Overview, event.data, url, PATH), event.data.encode()))
    elif event.event == "change":
        change = error_answers.document(Change, event.data, url, PATH)
        if change.revision is None:
            raise Failure(Exit.UNKNOWN, f"upstream {upstream} has been deleted")
        deliver(f"changed: {change.what}")
    elif event.event == "role":
        deliver(error_answers.document(Service, event.data, url, PATH))
    elif event.event == "gap":
        deliver("some changes were missed")
