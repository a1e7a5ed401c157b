"""The route of the audit log: who changed what, newest first."""

import json
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from steelyard_protocol import wire

from steelyard_controller.api import auth, models, request_body
from steelyard_controller.api.problems import later, responses
from steelyard_controller.api.routes_events import Upstream
from steelyard_controller.service import NotStored, Service

Limit = Annotated[int, Query(ge=1, le=1000, description="at most so many, newest first")]
Before = Annotated[
    int | None, Query(ge=1, le=wire.MAX_INTEGER, description="those before this one's id, as `Link` has it")
]


def routes(service: Service) -> APIRouter:
    """Return the route of the audit log."""
    router = APIRouter(tags=["service"])

    @router.get(
        auth.AUDIT, operation_id="getAudit", response_model=models.Audit, responses=responses(401, 422, 503)
    )
    async def get_audit(limit: Limit = 100, before: Before = None, upstream: Upstream = None) -> Response:
        """Return who changed what, what it was before and after; also of upstreams that are gone by now."""
        try:
            entries = await service.audit_log(before=before, most=limit + 1, upstream=upstream)
        except NotStored as error:
            raise later(f"the audit log cannot be read: {error}") from None
        headers = {}
        if len(entries) > limit:
            following = {"before": entries[limit - 1]["id"], "limit": limit}
            query = urlencode(following if upstream is None else {**following, "upstream": upstream})
            headers["Link"] = f'<{auth.AUDIT}?{query}>; rel="next"'
        text = json.dumps({"entries": entries[:limit]}, allow_nan=False)
        return Response(text, media_type=request_body.JSON, headers=headers)

    return router
