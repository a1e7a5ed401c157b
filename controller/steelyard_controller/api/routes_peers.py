"""The routes of servers: declared, changed, explained."""

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from steelyard_protocol import name_list, peer_address

from steelyard_controller.api import (
    auth,
    declaration_changes,
    middleware,
    models,
    pages,
    request_body,
    upstream_lookup,
    upstream_models,
)
from steelyard_controller.api.etags import tag
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.pages import After, Limit
from steelyard_controller.api.problems import ProblemError, responses
from steelyard_controller.api.routes_upstreams import IfMatch
from steelyard_controller.api.upstream_lookup import PeerName, UpstreamName
from steelyard_controller.declarations.declaration import (
    Unknown,
    peer_of,
    with_patch,
    with_peer,
    without_peer,
)
from steelyard_controller.declarations.discovered import with_pods_kept
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_controller.service import Service
from steelyard_controller.tick.outcome import explanation
from steelyard_controller.tick.overview import peer_overview

FIELDS = tuple(Peer.model_fields)[1:]

# Only a person sets these: a repeated registration by an agent must not undo a drain.
SET_BY_PEOPLE = ("state", "pin")
SET_BY_AGENTS = tuple(name for name in FIELDS if name not in SET_BY_PEOPLE)


def routes(service: Service) -> APIRouter:
    """Return the routes of servers."""
    router = guarded_router("peers")
    path = "/v1/upstreams/{upstream}/peers/{peer}"

    def refuse_of_kubernetes(upstream: str, peer: str) -> None:
        by = service.declaring_service(upstream)
        if by is not None and peer in service.views[upstream].declaration.pods:
            raise _of_kubernetes(peer, by)

    @router.get("/v1/upstreams/{upstream}/peers", responses=responses(401, 404, 422, 503))
    @auth.needs("read")
    async def list_peers(
        request: Request,
        upstream: UpstreamName,
        response: Response,
        limit: Limit = None,
        after: After = None,
    ) -> models.Peers:
        """Return the declared servers of an upstream; the ETag is the declaration's revision."""
        declared = upstream_lookup.cycle_of(service, upstream).declaration
        peers = declared.upstream.peers
        page = pages.page(request.url.path, [peer.id for peer in peers], after=after, limit=limit)
        response.headers.update({"ETag": tag(declared.revision), **page.headers})
        return models.Peers(peers=[peers[place] for place in page.places])

    @router.get(path, responses=responses(401, 404, 422, 503))
    @auth.needs("read")
    async def get_peer(upstream: UpstreamName, peer: PeerName) -> models.LivePeer:
        """Return a server as declared, with its present state."""
        cycle = upstream_lookup.cycle_of(service, upstream)
        declared, outcome = cycle.declaration, cycle.outcome
        try:
            its = peer_of(declared.upstream, peer)
        except Unknown as error:
            raise ProblemError(404, f"{upstream}: {error}") from None
        live = None if outcome is None else peer_overview(outcome, declared, peer)
        return models.LivePeer(
            **its.model_dump(), live=None if live is None else upstream_models.PeerRow(**live)
        )

    @router.put(
        path,
        response_model=Peer,
        responses={
            201: {"model": Peer, "description": "Created"},
            **responses(400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 503),
        },
        openapi_extra=declaration_changes.openapi_body(
            models.PeerDocument, {"address": "10.0.0.14:80", "baseline": 2}
        ),
    )
    @auth.needs("agent")
    async def put_peer(
        request: Request,
        upstream: UpstreamName,
        peer: PeerName,
        if_match: IfMatch = None,
    ) -> Response:
        """Declare a server; an agent's token sets neither state nor pin."""
        document = request_body.read(await request.body(), request.headers.get("content-type"))
        by_agent = not middleware.grant(request.scope).may("declare")
        wanted = _wanted(document, peer, by_agent=by_agent)
        declaration = upstream_lookup.cycle_of(service, upstream).declaration
        created = False

        def edit(before: Upstream | None) -> Upstream:
            nonlocal created
            if before is None:
                raise Unknown(f"no upstream is called {upstream}: declare it first")
            known = next((each for each in before.peers if each.id == peer), None)
            created = known is None
            if known is not None and not peer_address.same(wanted.address, known.address):
                refuse_of_kubernetes(upstream, peer)
            if known is None or not by_agent:
                return with_pods_kept(with_peer(before, wanted), before, declaration.pods)
            fields = {name: document[name] for name in SET_BY_AGENTS if name in document}
            if peer_address.same(wanted.address, known.address):
                fields["address"] = known.address  # Spelled as its declaration has it.
            after = with_patch(before, peer, fields)
            if peer in declaration.file_peers and after != before:
                raise _of_the_file(peer)
            return after

        declared = await declaration_changes.change(service, request, upstream, edit, if_match=if_match)
        return declaration_changes.answer(peer_of(declared.upstream, peer), declared, created=created)

    @router.patch(
        path,
        response_model=Peer,
        responses=responses(400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 503),
        openapi_extra=declaration_changes.openapi_body(
            models.PeerPatch, {"state": "drain"}, request_body.MERGE_PATCH, request_body.JSON
        ),
    )
    @auth.needs("drain")
    async def patch_peer(
        request: Request, upstream: UpstreamName, peer: PeerName, if_match: IfMatch = None
    ) -> Response:
        """Change some of a server's fields (RFC 7396): drain it, restore it, pin it."""
        document = request_body.read(
            await request.body(),
            request.headers.get("content-type"),
            types=(request_body.MERGE_PATCH, request_body.JSON),
        )
        request_body.validated(models.PeerPatch, document, fields=FIELDS)
        others = sorted({*document} - {*SET_BY_PEOPLE})
        grant = middleware.grant(request.scope)
        if others and not grant.may("declare"):
            raise auth.refusal(grant, "declare", f"to set {' and '.join(others)}")
        upstream_lookup.cycle_of(service, upstream)

        def edit(before: Upstream | None) -> Upstream:
            if before is None:
                raise Unknown(f"no upstream is called {upstream}")
            after = with_patch(before, peer, document)
            old, new = peer_of(before, peer), peer_of(after, peer)
            if new.zone != old.zone or not peer_address.same(new.address, old.address):
                refuse_of_kubernetes(upstream, peer)
            return after

        declared = await declaration_changes.change(service, request, upstream, edit, if_match=if_match)
        return declaration_changes.answer(peer_of(declared.upstream, peer), declared, created=False)

    @router.delete(
        path, status_code=204, response_class=Response, responses=responses(401, 403, 404, 409, 412, 422, 503)
    )
    @auth.needs("agent")
    async def delete_peer(
        request: Request, upstream: UpstreamName, peer: PeerName, if_match: IfMatch = None
    ) -> Response:
        """Remove a server; an agent's token removes none of the configuration file's."""
        declared = upstream_lookup.cycle_of(service, upstream).declaration
        if not middleware.grant(request.scope).may("declare") and peer in declared.file_peers:
            raise _of_the_file(peer)

        def edit(before: Upstream | None) -> Upstream:
            if before is None:
                raise Unknown(f"no upstream is called {upstream}")
            refuse_of_kubernetes(upstream, peer)
            return without_peer(before, peer)

        await declaration_changes.change(service, request, upstream, edit, if_match=if_match)
        return Response(status_code=204)

    @router.get(
        path + "/explain", response_model=upstream_models.Explanation, responses=responses(401, 404, 422, 503)
    )
    @auth.needs("read")
    async def explain_peer(upstream: UpstreamName, peer: PeerName) -> Response:
        """Return all figures behind a server's weight, and one sentence that explains it."""
        view, outcome = await upstream_lookup.outcome_of(service, upstream)
        # A deleted one is in the last decision until the next tick.
        declared = {each.id for each in view.declaration.upstream.peers}
        there = [each for each in outcome.decision.ids if each in declared]
        if peer not in there:
            known = name_list.shown(there, upstream_lookup.MOST_NAMES) or "none"
            raise ProblemError(404, f"{upstream} has no peer {peer}; there are: {known}")
        return Response(json.dumps(explanation(outcome, peer), allow_nan=False), media_type=request_body.JSON)

    return router


def _of_kubernetes(peer: str, service: str) -> ProblemError:
    return ProblemError(
        409,
        f"{peer} is a pod of the Kubernetes Service {service}, which decides its existence, address and "
        "zone: drain it here, or delete the pod",
    )


def _of_the_file(peer: str) -> ProblemError:
    # The token on every server must not move the traffic of servers that a person wrote down.
    return ProblemError(
        403,
        f"the configuration file declares {peer}, and an agent's token cannot change it: change the file, "
        "or send an admin token",
    )


def _wanted(document: dict[str, Any], peer: str, *, by_agent: bool) -> Peer:
    request_body.validated(models.PeerDocument, document, fields=FIELDS)
    personal = [name for name in SET_BY_PEOPLE if by_agent and name in document]
    if personal:
        raise ProblemError(
            403, f"an agent's token cannot set {' or '.join(personal)}: leave it out, or send an admin token"
        )
    return request_body.validated(Peer, {**document, "id": peer}, fields=FIELDS)
