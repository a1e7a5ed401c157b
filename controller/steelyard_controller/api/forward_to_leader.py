"""A standby forwards requests to the leader if only the leader can answer them.

The target comes from the lease alone, never from the request, so this is no
open proxy. The sender's scopes are decided here and sent along: if the
leader has other tokens, a request gets no more rights than its sender has here.
The leader itself decides the name for the audit log, by the request's token.
The leader's span is the child of this controller's span of the request,
or else of the client's (`traceparent`).
A request is forwarded once: a controller that gets a forwarded request and does
not lead answers 503.
"""

import contextlib
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
from opentelemetry import propagate
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from steelyard_controller.api import auth, middleware
from steelyard_controller.api.problems import ProblemError, retry_later
from steelyard_controller.api.routes_events import MEDIA_TYPE as EVENTS
from steelyard_controller.api.streams import OF_ONE_FORWARDED, Ended, StreamedResponse, Streams, client_of
from steelyard_controller.service import Service
from steelyard_controller.store.lease import Lease

log = logging.getLogger("steelyard.controller")

HEADER = middleware.FORWARDED

# Paths that each controller answers itself.
OWN_PATHS = auth.OPEN_PATHS | {"/metrics", "/v1/service", "/v1/laws"}

# A leader accepts a connection in milliseconds; a request may wait three seconds for its first tick.
TIMEOUTS = httpx.Timeout(10.0, connect=2.0)

EVENTS_PATH = "/v1/events"

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
    """Passes requests on to the routes while this controller leads, and to the leader otherwise."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        streams: Streams,
        connections: LeaderConnections,
    ) -> None:
        self._app = app
        self._service = service
        self._streams = streams
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or self._service.role == "leader" or _is_own(scope["path"]):
            await self._app(scope, receive, send)
            return
        leader = self._leader(Headers(scope=scope))
        async with contextlib.AsyncExitStack() as until_sent:
            if scope["path"] == EVENTS_PATH and scope["method"] == "GET":
                place = self._streams.place(client_of(scope), of_one_client=OF_ONE_FORWARDED)
                until_sent.enter_context(place)
            answer = await self._ask(leader, scope, await _body(scope, receive), until_sent)
            headers = [
                (name.lower(), value)
                for name, value in answer.headers.raw
                if name.lower().decode("latin-1") not in _dropped(answer.headers)
            ]
            length = answer.headers.get("content-length")
            response = StreamedResponse(self._chunks(answer), status_code=answer.status_code)
            response.raw_headers = [*headers, *([(b"content-length", length.encode())] if length else [])]
            await response(scope, receive, send)

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
        self, leader: Lease, scope: Scope, body: bytes, until_sent: contextlib.AsyncExitStack
    ) -> httpx.Response:
        client = self._connections.client
        try:
            request = client.build_request(
                scope["method"],
                _url(leader, scope),
                headers=self._headers(scope),
                content=body or None,
                timeout=httpx.Timeout(SILENCE_S, connect=2.0) if scope["path"] == EVENTS_PATH else TIMEOUTS,
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


def _is_own(path: str) -> bool:
    return path in OWN_PATHS or path.startswith(auth.OPEN_PREFIX)


def _url(leader: Lease, scope: Scope) -> httpx.URL:
    base = httpx.URL(leader.url)
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    if not raw.startswith(b"/"):
        # "GET http://elsewhere/": a request to a proxy.
        raise ProblemError(404, "a path begins with /")
    query: bytes = scope.get("query_string") or b""
    return base.copy_with(raw_path=base.raw_path.rstrip(b"/") + raw + (b"?" + query if query else b""))


def _dropped(headers: Headers | httpx.Headers) -> frozenset[str]:
    named = (part.strip().lower() for part in headers.get("connection", "").split(","))
    return _HOP_BY_HOP | frozenset(named)


async def _body(scope: Scope, receive: Receive) -> bytes:
    headers = Headers(scope=scope)
    if "content-length" not in headers and "transfer-encoding" not in headers:
        return b""
    # `middleware.BodyLimit` has read it: it comes in one piece.
    message = await receive()
    return bytes(message.get("body", b""))
