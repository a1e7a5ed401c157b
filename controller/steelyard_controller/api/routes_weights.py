"""The routes of the published weight table and of the history."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from steelyard_protocol import signature
from steelyard_protocol.weight_table import to_json

from steelyard_controller.api import auth, etags, request_body, upstream_lookup, upstream_models
from steelyard_controller.api.etags import tag
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.problems import responses, retry_later
from steelyard_controller.api.upstream_lookup import UpstreamName
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.service import Service
from steelyard_controller.store.interface import Unavailable

SIGNATURE_HEADER = "Steelyard-Signature"


def routes(service: Service, *, keys: Keyring) -> APIRouter:
    """Return the routes; `keys` has the signer of the weight tables."""
    router = guarded_router("upstreams")

    @router.get(
        "/v1/upstreams/{upstream}/weights",
        response_model=upstream_models.Table,
        responses={**responses(401, 404, 422, 503), 304: {"description": "The table has not changed"}},
    )
    @auth.needs("read")
    async def get_weights(
        upstream: UpstreamName, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        """Return the published weight table; the ETag is term.generation.

        With a shared key, the header Steelyard-Signature is the HMAC-SHA256 of the body's bytes.
        """
        table = (await upstream_lookup.outcome_of(service, upstream))[1].table
        headers = {"ETag": tag(table.term, table.generation), "Cache-Control": "no-cache"}
        if etags.matches(if_none_match, headers["ETag"], weak=True):
            return Response(status_code=304, headers=headers)
        document = to_json(table)
        key = keys.of_tables
        if key is not None:
            headers[SIGNATURE_HEADER] = signature.digest(key, document)
        return Response(document, media_type=request_body.JSON, headers=headers)

    @router.get(
        "/v1/upstreams/{upstream}/history",
        response_model=upstream_models.History,
        responses=responses(401, 404, 422, 503),
    )
    @auth.needs("read")
    async def get_history(
        upstream: UpstreamName,
        seconds: Annotated[float, Query(ge=1, le=86_400, description="how far back")] = 900,
        step_s: Annotated[float, Query(ge=0, le=3600, description="at least so far apart")] = 1,
        peer: Annotated[
            list[str] | None,
            Query(max_length=50, description="servers, one a parameter; `all` then has the sum of all"),
        ] = None,
    ) -> Response:
        """Return the moments of the last seconds, oldest first, at most 2000."""
        upstream_lookup.cycle_of(service, upstream)
        try:
            moments = await service.history(upstream, seconds=seconds, step_s=step_s, peers=peer)
        except Unavailable as error:
            raise retry_later(f"the history of {upstream} cannot be read now: {error}") from None
        document = b'{"upstream":"%s","moments":[%s]}' % (upstream.encode(), b",".join(moments))
        return Response(document, media_type=request_body.JSON)

    return router
