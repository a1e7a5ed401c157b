"""The middleware between a request and its route, outermost first.

    Answers     counts the answers, and adds their common headers
    Problems    refuses a path with control characters; turns any error into a problem document
    HeadAsGet   answers HEAD as GET without a body

Plain ASGI, because a framework's middleware would buffer or reorder streams. The route itself decides on a
request's grant (`guarded_route.py`).
"""

import logging
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers as Fields
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard_controller.api import problems
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.tokens import ANYBODY, Grant
from steelyard_controller.declarations.audit import Author

log = logging.getLogger("steelyard.controller")

GRANT = "steelyard.grant"
"""The scope's key for the request's grant."""

FORWARDED = "Steelyard-Forwarded"
"""The header with the name of the forwarding standby."""

HEAD = "steelyard.head"
"""The scope's key for whether the request is a HEAD."""

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


class Problems:
    """Refuses a path with control characters, and answers every error with a problem document."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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
            _refuse_unprintable(scope["path"])
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


def method(scope: Scope) -> str:
    """Return the method as the client sent it."""
    return "HEAD" if scope.get(HEAD) else str(scope["method"])


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


def _refuse_unprintable(path: str) -> None:
    # The router's patterns end before a last line feed, and a log line must stay one line.
    if not path.isprintable():
        shown = path[:200].encode("unicode_escape").decode()
        raise ProblemError(400, f"the path {shown} has a character that cannot be printed: leave it out")
