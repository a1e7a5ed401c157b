"""Streams: responses sent piece by piece, and the set of open ones.

Their number is limited, for each client and for all without a token. Anybody who reaches the port may open
streams, so otherwise one client could take all places. A refused client goes on by plain requests.

All end when the controller stops: a stopping server waits for its connections,
and a stream never ends on its own, so `Streams.end` ends them. After a client has left, nothing of its
response remains. Starlette's runs in a task group that keeps its error, and with it every frame. Each
departed reader would stay in memory until the garbage collector runs, which is rare in this process.
"""

import asyncio
import contextlib
import ipaddress
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Response
from starlette.types import Receive, Scope, Send

from steelyard_controller.api import middleware
from steelyard_controller.api.problems import ProblemError, retry_later
from steelyard_controller.api.tokens import ANYBODY
from steelyard_controller.log_once import LogRarely

log = logging.getLogger("steelyard.controller")

T = TypeVar("T")

MEDIA_TYPE = "text/event-stream"

# Each costs a name for each upstream. An open page has one; a hundred open pages are forgotten ones.
MAX_STREAMS = 100

# The other places are kept for those with a token.
WITHOUT_TOKEN = 80

# All pages behind one proxy have one address, and so have all clients of one standby.
OF_ONE_CLIENT = 40

# At a standby. Its clients share the leader's places for one client, and one of them must not take all.
OF_ONE_FORWARDED = OF_ONE_CLIENT // 2

# Pages and `steelyard watch` wait longer, and ask by plain requests meanwhile.
RETRY_AFTER_S = 5

# An IPv6 host has all addresses of such a network.
IPV6_HOST_BITS = 64


@dataclass(frozen=True, slots=True)
class Client:
    """The owner of a stream: the holder of a token by its name, or else an address."""

    name: str
    has_token: bool


class Ended(Exception):
    """The controller stops."""


class Streams:
    """The open streams, `count` of them.

    most            in all
    without_token   once this many are open in all, only clients with a token get another one
    of_one_client   of one token's holder, or without a token of one address
    """

    def __init__(
        self,
        most: int = MAX_STREAMS,
        *,
        without_token: int = WITHOUT_TOKEN,
        of_one_client: int = OF_ONE_CLIENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._without_token = without_token
        self._of_one_client = of_one_client
        self._of_client: Counter[Client] = Counter()
        self._log_rarely = LogRarely(clock)
        self._waiting: set[asyncio.Task[Any]] = set()
        self._ended = False

    @property
    def count(self) -> int:
        """Return the number of open streams."""
        return self._of_client.total()

    @contextlib.contextmanager
    def place(self, client: Client, *, of_one_client: int | None = None) -> Iterator[None]:
        """Count a stream of a client until the end of the block.

        Raise a 429 problem if it would be one too many, a 503 problem if the controller stops.
        `of_one_client` replaces the general limit.
        """
        if self._ended:
            raise retry_later("this controller stops", after_s=RETRY_AFTER_S)
        own, of_one_client = self._of_client[client], of_one_client or self._of_one_client
        if own >= of_one_client:
            raise self._refusal(f"{client.name} has {own} event streams open, the most for one client")
        if self.count >= self._most:
            raise self._refusal(f"{self.count} event streams are open, the most there may be")
        if not client.has_token and self.count >= self._without_token:
            raise self._refusal(
                f"{self.count} event streams are open, and the others are kept for clients with a token"
            )
        self._of_client[client] += 1
        try:
            yield
        finally:
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]

    def _refusal(self, why: str) -> ProblemError:
        if self._log_rarely.is_due():
            log.warning("%s; more are refused", why, extra={"event": "streams"})
        # The refused connection is closed: connections are limited, too.
        return ProblemError(
            429,
            f"{why}: close some, or use plain requests",
            headers={"Retry-After": str(RETRY_AFTER_S), "Connection": "close"},
        )

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


def client_of(scope: Scope) -> Client:
    """Return the client of a request.

    Without a token, that is the other end of the connection: anybody can send X-Forwarded-For.
    """
    grant, end = middleware.grant(scope), scope.get("client")
    if grant != ANYBODY:
        return Client(f"the token {grant.name}", has_token=True)
    return Client(_host(end[0]) if end else "a socket", has_token=False)


class StreamedResponse(Response):
    """Sends a generator's items, and closes it at the end or once the client has left.

    It is within `place` from before its head until its end. If `place` raises, the error is the answer.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
        place: AbstractContextManager[None] | None = None,
    ) -> None:
        self._chunks = chunks
        self._place = place or contextlib.nullcontext()
        self.status_code = status_code
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        with self._place:
            await self._serve(receive, send)

    async def _serve(self, receive: Receive, send: Send) -> None:
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


def _host(address: str) -> str:
    """Return the address of a client's host, for IPv6 its network."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version == 4:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip.packed, IPV6_HOST_BITS), strict=False))
