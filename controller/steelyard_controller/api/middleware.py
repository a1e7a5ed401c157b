"""The middleware between a request and its route, outermost first.

    Answers           counts the answers, and adds their common headers
    Authorization     decides the request's grant; turns any error into a problem document
    BodyLimit         reads the whole body, and refuses a too large or too slow one
    ForwardToLeader   (forward_to_leader.py) a standby forwards requests for the leader
    HeadAsGet         answers HEAD as GET without a body

Plain ASGI, because a framework's middleware would buffer or reorder streams.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers as Fields
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard_controller.api import auth, problems
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ANYBODY, Access, Grant
from steelyard_controller.declarations.audit import Author

log = logging.getLogger("steelyard.controller")

GRANT = "steelyard.grant"
"""The scope's key for the request's grant."""

FORWARDED = "Steelyard-Forwarded"
"""The header with the name of the forwarding standby."""

HEAD = "steelyard.head"
"""The scope's key for whether the request is a HEAD."""

# A megabyte takes a second on a slow line; a slower client only holds a connection.
BODY_S = 10.0

SECURITY: Sequence[tuple[str, str]] = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    (
        "Content-Security-Policy",
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)


class Answers:
    """Adds the security headers, and `no-store` unless a route sets caching.

    `answered` is called with the method and the status of each answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        answered: Callable[[str, int], None],
    ) -> None:
        self._app = app
        self._answered = answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(scope["method"], message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY:
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class Authorization:
    """Passes on only requests allowed by their grant, and answers every error with a problem document.

    `access` returns the present tokens.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: Callable[[], Access],
    ) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def noting(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            asked = auth.RequestParts(method=scope["method"], path=scope["path"], headers=Fields(scope=scope))
            scope[GRANT] = auth.grant_for(self._access(), asked)
            await self._app(scope, receive, noting)
        except Exception as error:
            if began:
                raise
            problem = error
            if not isinstance(problem, ProblemError):
                # The path may hold anything; the traceback names the mistake, and no header or body.
                log.exception("a request failed: %s %.200r", scope["method"], scope["path"])
                problem = ProblemError(500, "the controller has made a mistake: its log has the cause")
            await problems.answer(problem)(scope, receive, send)


class BodyLimit:
    """Reads the whole body first; refuses one that is too large (413) or takes too long (408)."""

    def __init__(
        self,
        app: ASGIApp,
        max_body_bytes: int,
        body_s: float = BODY_S,
    ) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        fields = Fields(scope=scope) if scope["type"] == "http" else {}
        if "content-length" not in fields and "transfer-encoding" not in fields:
            await self._app(scope, receive, send)
            return
        length = fields.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._max_body_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._body_s):
                body = await self._read(receive)
        except TimeoutError:
            raise ProblemError(
                408, f"the body did not come within {self._body_s:g} s", headers={"Connection": "close"}
            ) from None
        if body is None:
            return
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def replay() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            first, whole = whole, None
            return first

        await self._app(scope, replay, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the body; None if the client left before its end."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self._max_body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> ProblemError:
        return ProblemError(
            413,
            f"the body has more than {self._max_body_bytes} bytes: send less, or start the controller with a "
            "larger --max-body-bytes",
            headers={"Connection": "close"},
        )


class HeadAsGet:
    """Answers HEAD as GET, without the body."""

    def __init__(
        self,
        app: ASGIApp,
    ) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET", HEAD: True}, receive, without_body)


def grant(scope: Scope) -> Grant:
    """Return the grant of a request."""
    known: Grant = scope.get(GRANT, ANYBODY)
    return known


def author(scope: Scope) -> Author:
    """Return the author of a request's change, for the audit log."""
    own, client = grant(scope), scope.get("client")
    is_agent = own.may("agent") and not own.may("drain")
    return Author(
        name=own.name,
        kind="person" if own.proxy is not None else "agent" if is_agent else "token",
        address=client[0] if client else None,
        # Any client can claim to be a standby: its name is shown beside the author's, not in its place.
        via=", ".join(filter(None, (own.proxy, Fields(scope=scope).get(FORWARDED, "")[:64]))) or None,
    )
