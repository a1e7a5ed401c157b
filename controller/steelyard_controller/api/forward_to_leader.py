"""A standby forwards requests to the leader if only the leader can answer them.

The target comes from the lease alone, never from the request, so this is no
open proxy. The sender's scopes are decided here and sent along: if the
leader has other tokens, a request gets no more rights than its sender has here.
The leader itself decides the name for the audit log, by the request's token.
The leader's span is the child of this controller's span of the request,
or else of the client's (`traceparent`).
The leader gets the plain spelling of the path: this controller's route and its parameters.
A request is forwarded once: a controller that gets a forwarded request and does
not lead answers 503.
"""

import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from urllib.parse import quote

import httpx
from fastapi import Request, Response
from opentelemetry import propagate
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from steelyard_controller.api import auth, body_limit, middleware
from steelyard_controller.api.problems import retry_later
from steelyard_controller.api.streams import MEDIA_TYPE as EVENTS
from steelyard_controller.api.streams import OF_ONE_FORWARDED, Ended, StreamedResponse, Streams, client_of
from steelyard_controller.service import Service
from steelyard_controller.store.lease import Lease

log = logging.getLogger("steelyard.controller")

HEADER = middleware.FORWARDED

# A leader accepts a connection in milliseconds; a request may wait three seconds for its first tick.
TIMEOUTS = httpx.Timeout(10.0, connect=2.0)

# At least three of the pings of a stream of events.
SILENCE_S = 30.0

# RFC 9110, 7.6.1; and the headers that httpx writes itself.
_HOP_BY_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
        "trailer", "transfer-encoding", "upgrade", "host", "content-length",
    }
)  # fmt: skip

# A browser's headers about the origin of its request: they were checked here, against this host name.
_JUDGED = frozenset({"origin", "referer", "cookie", "sec-fetch-site", auth.ROLE_HEADER, HEADER.lower()})


class LeaderConnections:
    """The HTTP client for the leader; made at the first request, because most controllers never need it."""

    def __init__(self, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport

    @functools.cached_property
    def client(self) -> httpx.AsyncClient:
        """Return the client, made at the first use."""
        # No proxy from the environment and no redirect: requests go to the leader alone.
        return httpx.AsyncClient(
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=TIMEOUTS,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        """Close all connections."""
        if "client" in vars(self):
            await self.client.aclose()


class ForwardToLeader:
    """Asks the leader for the answer to a request while this controller does not lead."""

    def __init__(self, service: Service, streams: Streams, connections: LeaderConnections) -> None:
        self._service = service
        self._streams = streams
        self._connections = connections

    @property
    def is_needed(self) -> bool:
        """Return whether only another controller can answer."""
        return self._service.role != "leader"

    def answer(self, request: Request, *, is_stream: bool) -> Response:
        """Return a response that asks the leader when it is sent; `is_stream`: it has no end."""
        return _Forwarded(lambda send: self._forward(request, send, is_stream=is_stream))

    async def _forward(self, request: Request, send: Send, *, is_stream: bool) -> None:
        scope = request.scope
        leader = self._leader(request.headers)
        # A reader of events sends nothing until it leaves, so waiting for a body would last for ever.
        body = await request.body() if body_limit.has_body(request) else b""
        async with contextlib.AsyncExitStack() as until_sent:
            if is_stream and middleware.method(scope) == "GET":
                place = self._streams.place(client_of(scope), of_one_client=OF_ONE_FORWARDED)
                until_sent.enter_context(place)
            answer = await self._ask(leader, scope, body, until_sent, is_stream=is_stream)
            headers = [
                (name.lower(), value)
                for name, value in answer.headers.raw
                if name.lower().decode("latin-1") not in _dropped(answer.headers)
            ]
            length = answer.headers.get("content-length")
            response = StreamedResponse(self._chunks(answer), status_code=answer.status_code)
            response.raw_headers = [*headers, *([(b"content-length", length.encode())] if length else [])]
            await response(scope, request.receive, send)

    def _leader(self, headers: Headers) -> Lease:
        leader = self._service.leader
        if leader is None or leader.holder == self._service.id:
            raise retry_later("no controller leads now; one takes over within two lease periods")
        if HEADER in headers:
            raise retry_later(
                f"{headers[HEADER][:64]} takes this controller for the leader; {leader.holder} leads"
            )
        return leader

    async def _ask(
        self,
        leader: Lease,
        scope: Scope,
        body: bytes,
        until_sent: contextlib.AsyncExitStack,
        *,
        is_stream: bool,
    ) -> httpx.Response:
        client = self._connections.client
        try:
            request = client.build_request(
                middleware.method(scope),
                _url(leader, scope),
                headers=self._headers(scope),
                content=body or None,
                timeout=httpx.Timeout(SILENCE_S, connect=2.0) if is_stream else TIMEOUTS,
            )
            answer = await client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise retry_later(
                f"{leader.holder} leads and does not answer at {leader.url} ({type(error).__name__}); "
                "if it stays away, another controller takes over within two lease periods"
            ) from None
        until_sent.push_async_callback(answer.aclose)
        return answer

    def _headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        given = Headers(scope=scope)
        context: dict[str, str] = {}
        propagate.inject(context)
        told_anew = propagate.get_global_textmap().fields if context else set()
        dropped = _dropped(given) | _JUDGED | told_anew
        kept = [(name, value) for name, value in given.raw if name.decode("latin-1").lower() not in dropped]
        own = [(HEADER, self._service.id), (auth.ROLE_HEADER, auth.header_of(middleware.grant(scope)))]
        return kept + [(name.encode(), value.encode()) for name, value in (*own, *context.items())]

    async def _chunks(self, answer: httpx.Response) -> AsyncGenerator[bytes, None]:
        chunks = answer.aiter_raw()
        is_stream = answer.headers.get("content-type", "").startswith(EVENTS)
        with contextlib.suppress(Ended, httpx.HTTPError if is_stream else Ended):
            # Not `async for`: it must also end when this controller stops.
            while (chunk := await self._streams.wait(_next(chunks))) is not None:
                yield chunk


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


class _Forwarded(Response):
    def __init__(self, forward: Callable[[Send], Awaitable[None]]) -> None:
        self._forward = forward
        self.background = None

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        await self._forward(send)


def _url(leader: Lease, scope: Scope) -> httpx.URL:
    base = httpx.URL(leader.url)
    names = {name: quote(str(value), safe="") for name, value in scope["path_params"].items()}
    path = scope["route"].path_format.format(**names).encode()
    query: bytes = scope.get("query_string") or b""
    return base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path + (b"?" + query if query else b""))


def _dropped(headers: Headers | httpx.Headers) -> frozenset[str]:
    named = (part.strip().lower() for part in headers.get("connection", "").split(","))
    return _HOP_BY_HOP | frozenset(named)
