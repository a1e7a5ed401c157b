"""Reads the whole body of a request before its route: bounded in size and time."""

import asyncio

from fastapi import Request
from starlette.types import Message, Receive

from steelyard_controller.api.problems import ProblemError

# A megabyte takes a second on a slow line; a slower client only holds a connection.
BODY_S = 10.0


def has_body(request: Request) -> bool:
    """Return whether a request announces a body."""
    return "content-length" in request.headers or "transfer-encoding" in request.headers


class BodyLimit:
    """Reads whole bodies; refuses one that is too large (413) or takes too long (408)."""

    def __init__(self, max_body_bytes: int, body_s: float = BODY_S) -> None:
        self._max_body_bytes = max_body_bytes
        self._body_s = body_s

    async def read(self, request: Request) -> Request:
        """Return the request with its whole body in one message; raise the problem of a refused one."""
        if not has_body(request):
            return request
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > self._max_body_bytes:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._body_s):
                body = await self._whole(request.receive)
        except TimeoutError:
            raise ProblemError(
                408, f"the body did not come within {self._body_s:g} s", headers={"Connection": "close"}
            ) from None
        first: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def replay() -> Message:
            nonlocal first
            if first is None:
                return await request.receive()
            message, first = first, None
            return message

        return Request(request.scope, replay)

    async def _whole(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ProblemError(400, "the client left before the end of its request's body")
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
