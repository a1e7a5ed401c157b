"""The routes of upstreams: the list, the overview, the declaration."""

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from steelyard_controller.api import (
    auth,
    declaration_changes,
    etags,
    models,
    pages,
    request_body,
    upstream_lookup,
    upstream_models,
)
from steelyard_controller.api.etags import tag
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.pages import After, Limit, Shown
from steelyard_controller.api.problems import responses
from steelyard_controller.api.upstream_lookup import UpstreamName
from steelyard_controller.declarations.declaration import Declaration, differences
from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.service import Service
from steelyard_controller.tick import shown_rows
from steelyard_controller.tick.overview import of_view, overview
from steelyard_controller.tick.shown_rows import Standings
from steelyard_controller.tick.upstream_zones import crossing

EXAMPLE = {
    "law": "steelyard",
    "parameters": {"H": 0.3},
    "peers": [
        {"id": "server-1", "address": "10.0.0.11:80", "baseline": 1},
        {"id": "server-2", "address": "10.0.0.12:80", "baseline": 1},
    ],
}

IfMatch = Annotated[
    str | None,
    Header(description="only while the declaration has this revision", examples=['"4"'], max_length=1000),
]
IfNoneMatch = Annotated[
    str | None, Header(description="`*`: only if it does not exist yet", examples=["*"], max_length=1000)
]


def routes(service: Service) -> APIRouter:
    """Return the routes of upstreams."""
    router = guarded_router("upstreams")
    standings = Standings()

    @router.get("/v1/upstreams", response_model=upstream_models.Upstreams, responses=responses(401, 422, 503))
    @auth.needs("read")
    async def list_upstreams(
        request: Request, view: Shown, limit: Limit = None, after: After = None
    ) -> Response:
        """Return every upstream in a line, or the selected ones, and what concerns many of them.

        `search` looks in the names of upstreams, and in the names and addresses of their servers.
        """
        views = dict(service.views)  # of this moment: they may change while the thread reads
        controller = service.faults_document()

        def made() -> Response:
            headers, matching, totals = dict[str, str](), len(views), dict[str, object]()
            for gone in standings.keys() - views.keys():
                standings.pop(gone, None)
            own, common = standings.of_all(views)
            if view is None:
                names = sorted(views)
                page = pages.page(request.url.path, names, after=after, limit=limit)
                headers, names = page.headers, [names[place] for place in page.places]
                listed = [shown_rows.Listed(views[name], own[name], ()) for name in names]
            else:
                listed, matching = shown_rows.upstreams(views, view, own)
                totals = {"totals": shown_rows.totals(views, own)}
            document = {
                "controller": controller,
                "troubles": common.lines(),
                "upstreams": [_summary(each) for each in listed],
                "total": len(views),
                "matching": matching,
                **totals,
            }
            return Response(
                json.dumps(document, separators=(",", ":")), media_type=request_body.JSON, headers=headers
            )

        # Thousands of upstreams take a tenth of a second; in a thread, nothing else waits for them.
        return await asyncio.to_thread(made)

    @router.get(
        "/v1/upstreams/{upstream}",
        response_model=upstream_models.Overview,
        responses=responses(401, 404, 422, 503),
    )
    @auth.needs("read")
    async def get_upstream(
        request: Request, upstream: UpstreamName, view: Shown, limit: Limit = None, after: After = None
    ) -> Response:
        """Return an upstream's weights with the samples and reports behind them.

        All parameters select servers.
        """
        cycle, outcome = await upstream_lookup.outcome_of(service, upstream)
        controller = service.faults_document()

        def made() -> Response:
            if view is not None:
                document = of_view(outcome, cycle.declaration, view) | {"controller": controller}
                return Response(json.dumps(document, allow_nan=False), media_type=request_body.JSON)
            ids = [peer.id for peer in outcome.table.peers]
            page = pages.page(request.url.path, ids, after=after, limit=limit)
            document = overview(outcome, cycle.declaration, page.places) | {"controller": controller}
            text = json.dumps(document, allow_nan=False)
            return Response(text, media_type=request_body.JSON, headers=page.headers)

        return await asyncio.to_thread(made)

    @router.get(
        "/v1/upstreams/{upstream}/declaration",
        response_model=Upstream,
        responses={**responses(401, 404, 422, 503), 304: {"description": "Not changed"}},
    )
    @auth.needs("read")
    async def get_declaration(
        upstream: UpstreamName, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        """Return the declaration of an upstream; the ETag is its revision."""
        declared = upstream_lookup.cycle_of(service, upstream).declaration
        headers = {"ETag": tag(declared.revision), "Cache-Control": "no-cache"}
        if etags.matches(if_none_match, headers["ETag"], weak=True):
            return Response(status_code=304, headers=headers)
        return Response(declared.upstream.model_dump_json(), media_type=request_body.JSON, headers=headers)

    @router.put(
        "/v1/upstreams/{upstream}",
        response_model=Upstream,
        responses={
            201: {"model": Upstream, "description": "Created"},
            **responses(400, 401, 403, 408, 412, 413, 415, 422, 503),
        },
        openapi_extra=declaration_changes.openapi_body(Upstream, EXAMPLE),
    )
    @auth.needs("declare")
    async def put_upstream(
        request: Request, upstream: UpstreamName, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
    ) -> Response:
        """Declare an upstream; an absent field has its default."""
        before, after = await _put(service, request, upstream, if_match, if_none_match)
        return declaration_changes.answer(after.upstream, after, created=before is None)

    @router.put(
        "/v1/upstreams/{upstream}/dry-run",
        responses=responses(400, 401, 403, 408, 412, 413, 415, 422, 503),
        openapi_extra=declaration_changes.openapi_body(Upstream, EXAMPLE),
    )
    @auth.needs("declare")
    async def try_upstream(
        request: Request, upstream: UpstreamName, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
    ) -> models.DryRun:
        """Return the effect of the same PUT of the upstream, and change nothing."""
        before, after = await _put(service, request, upstream, if_match, if_none_match, dry_run=True)
        what = differences(before, after.upstream)
        return models.DryRun(upstream=upstream, revision=after.revision, what=what)

    @router.delete(
        "/v1/upstreams/{upstream}",
        status_code=204,
        response_class=Response,
        responses=responses(401, 403, 404, 409, 412, 422, 503),
    )
    @auth.needs("declare")
    async def delete_upstream(request: Request, upstream: UpstreamName, if_match: IfMatch = None) -> Response:
        """Forget an upstream and all about it; nginx keeps its last table, as when the controller is away."""
        upstream_lookup.cycle_of(service, upstream)
        await declaration_changes.remove(service, request, upstream, if_match=if_match)
        return Response(status_code=204)

    return router


async def _put(
    service: Service,
    request: Request,
    upstream: str,
    if_match: str | None,
    if_none_match: str | None,
    *,
    dry_run: bool = False,
) -> tuple[Upstream | None, Declaration]:
    """Return the previous upstream, None if it is new, and its declaration after the change."""
    document = request_body.read(await request.body(), request.headers.get("content-type"))
    wanted = request_body.validated(Upstream, document)
    before: Upstream | None = None

    def edit(existing: Upstream | None) -> Upstream:
        nonlocal before
        before = existing
        return wanted

    after = await declaration_changes.change(
        service,
        request,
        upstream,
        edit,
        if_match=if_match,
        if_none_match=if_none_match,
        dry_run=dry_run,
    )
    return before, after


def _summary(listed: shown_rows.Listed) -> dict[str, object]:
    cycle, declared, outcome = listed.cycle, listed.cycle.declaration, listed.cycle.outcome
    room = listed.standing.headroom
    return {
        "name": cycle.name,
        "law": declared.upstream.law,
        "picker": declared.upstream.picker,
        "peers": len(declared.upstream.peers),
        "revision": declared.revision,
        "ready": outcome is not None,
        "degraded": [] if outcome is None else list(outcome.degraded),
        "level": listed.standing.level,
        "up": 0 if outcome is None else sum(peer.state == "up" for peer in outcome.table.peers),
        "requests_per_s": None if outcome is None else outcome.carries_per_s,
        "failed_per_s": None if outcome is None else listed.standing.failed_per_s,
        "headroom": room.ratio,
        "left_per_s": room.left_per_s,
        "could_carry_per_s": room.could_carry_per_s,
        "headroom_unknown": room.unknown,
        "crossing": None if outcome is None else crossing(outcome),
        "troubles": list(listed.standing.troubles),
        "found": list(listed.matches),
    }
