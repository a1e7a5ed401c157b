"""What happens to an upstream, as it happens: the events of `GET /v1/events`, read in a thread.

A connection that breaks is made again, to the first controller that answers.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import httpx
from httpx_sse import EventSource, ServerSentEvent, SSEError
from pydantic import ValidationError

from steelyard_controller.cli import problems
from steelyard_controller.cli.client import Controllers
from steelyard_controller.cli.documents import Change, Document, Overview, Service
from steelyard_controller.cli.exits import Exit, Failure

D = TypeVar("D", bound=Document)

PATH = "/v1/events"

# A take-over needs some seconds; asking each second costs nobody anything.
RETRY_S = 1.0

# For the thread to see that it is to end.
PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Tick:
    """An upstream after a tick, and the bytes that it came in."""

    overview: Overview
    body: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """Something else that a person wants to see."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing more will come, and why."""

    failure: Failure


Event = Tick | Note | Ended


class Feed:
    """Follows an upstream in a thread for as long as its block runs; `tell` is called in that thread."""

    def __init__(self, controllers: Controllers, upstream: str, tell: Callable[[Event], None]) -> None:
        self._controllers = controllers
        self._upstream = upstream
        self._tell = tell
        self._ending = threading.Event()
        self._connected: socket.socket | None = None
        self._noted = ""
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._cut()
        # A thread that is just connecting ends with the process: nobody waits for that.
        self._thread.join(PATIENCE_S)

    def _follow(self) -> None:
        known = False
        try:
            while not self._ending.is_set():
                try:
                    with self._controllers.stream(PATH, upstream=self._upstream) as (url, answer):
                        known, self._noted = True, ""
                        self._read(url, answer)
                    self._note(f"{url} ended the connection: connecting again")
                except Failure as failure:
                    if not known or failure.status != Exit.UNREACHABLE:
                        raise
                    self._note(f"{failure}; trying again")
                except (httpx.TransportError, SSEError) as error:
                    said = "nothing came for a while" if isinstance(error, httpx.ReadTimeout) else "it broke"
                    self._note(f"the connection to {self._controllers.url}: {said}; connecting again")
                self._ending.wait(RETRY_S)
        except Failure as failure:
            self._tell(Ended(failure))

    def _read(self, url: str, answer: httpx.Response) -> None:
        self._connected = answer.extensions["network_stream"].get_extra_info("socket")
        try:
            if not self._ending.is_set():
                for event in EventSource(answer).iter_sse():
                    _tell(url, self._upstream, event, self._tell)
        finally:
            self._connected = None

    def _note(self, text: str) -> None:
        # Said once, not at every try.
        if not self._ending.is_set() and text != self._noted:
            self._noted = text
            self._tell(Note(text))

    def _cut(self) -> None:
        """End the read that the thread waits in."""
        connected = self._connected
        if connected is not None:
            # The plain socket's: that of ssl would take the session from under the thread that reads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _tell(url: str, upstream: str, event: ServerSentEvent, tell: Callable[[Event], None]) -> None:
    if event.event == "tick":
        tell(Tick(_read(url, Overview, event), event.data.encode()))
    elif event.event == "change":
        change = _read(url, Change, event)
        if change.revision is None:
            raise Failure(Exit.UNKNOWN, f"upstream {upstream} has been deleted")
        tell(Note(f"changed: {change.what}"))
    elif event.event == "role":
        service = _read(url, Service, event)
        if service.leader is None:
            tell(Note("nobody leads now: the last tables hold"))
        else:
            tell(Note(f"{service.leader.id} leads"))


def _read(url: str, model: type[D], event: ServerSentEvent) -> D:
    try:
        return model.model_validate_json(event.data)
    except ValidationError as error:
        raise problems.misread(url, PATH, error) from None
