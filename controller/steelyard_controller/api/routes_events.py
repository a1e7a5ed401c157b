"""`GET /v1/events`: ticks, changes and role changes as server-sent events (HTML standard, 9.2)."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from steelyard_protocol import wire

from steelyard_controller.api import auth, middleware, problems, upstream_lookup
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.pages import Limit, Shown
from steelyard_controller.api.streams import MEDIA_TYPE, Ended, StreamedResponse, Streams, client_of
from steelyard_controller.events import Event
from steelyard_controller.service import Service
from steelyard_controller.tick.shown_rows import View

# Less than the minute after which proxies close a silent connection.
PING_S = 10.0

RETRY_MS = 2000

# no-transform and X-Accel-Buffering: a proxy must not buffer events.
HEADERS = {"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}

Upstream = Annotated[
    str | None,
    Query(pattern=f"^{wire.NAME.pattern}$", examples=["web"], description="of this upstream only"),
]

After = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="id of the client's last event; later changes come first",
    ),
]

DESCRIPTION = (
    "`role` (the document of /v1/service) first, then `tick` of each upstream, its newest overview. `change` "
    "({upstream, revision, what}) and `role` follow when they happen, with ids. `gap` ({missed}; null: "
    "unknown) replaces changes that are no longer kept. A comment line comes every 10 s"
)


def routes(service: Service, streams: Streams) -> APIRouter:
    """Return the route of the event stream."""
    router = guarded_router("service")

    @router.get(
        "/v1/events",
        response_class=Response,
        responses={
            200: {"description": DESCRIPTION, "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
            **problems.responses(401, 404, 422, 429, 503),
        },
    )
    @auth.needs("read", is_stream=True)
    async def stream_events(
        request: Request, view: Shown, upstream: Upstream = None, limit: Limit = None, after: After = None
    ) -> Response:
        """Stream events as they happen.

        A 429 means that you, or all clients without a token, have as many streams as there may be.

        With `search`, `order`, `troubled`, `offset` or `limit`, ticks have only these servers.
        """
        if view is None and limit is not None:
            view = View(limit=limit)
        if upstream is not None:
            upstream_lookup.cycle_of(service, upstream)
        if request.scope.get(middleware.HEAD):
            return Response(media_type=MEDIA_TYPE, headers=HEADERS)
        events = _stream(service, streams, upstream, view, after)
        place = streams.place(client_of(request.scope))
        return StreamedResponse(events, media_type=MEDIA_TYPE, headers=HEADERS, place=place)

    return router


async def _stream(
    service: Service, streams: Streams, upstream: str | None, view: View | None, after: str | None
) -> AsyncGenerator[bytes, None]:
    with service.subscribe(upstream, view=view, after=after) as (role, events):
        yield b"retry: %d\n\n" % RETRY_MS
        yield _encoded(role)
        with contextlib.suppress(Ended):
            while True:
                try:
                    event = await streams.wait(events.next(), timeout_s=PING_S)
                except TimeoutError:
                    yield b": ping\n\n"
                    continue
                yield _encoded(event)
                if event.kind == "role" and service.role != "leader":
                    # The client connects again, and is forwarded to the new leader.
                    return


def _encoded(event: Event) -> bytes:
    # json.dumps writes no line ends, so one data line holds it.
    id = b"" if event.id is None else b"id: %s\n" % event.id.encode()
    return b"%sevent: %s\ndata: %s\n\n" % (id, event.kind.encode(), event.data)
