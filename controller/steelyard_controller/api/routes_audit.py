"""The route of the audit log: who changed what, newest first."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from steelyard_protocol import wire

from steelyard_controller.api import auth, models
from steelyard_controller.api.problems import later, responses
from steelyard_controller.service import NotStored, Service

MOST = 1000

Limit = Annotated[int, Query(ge=1, le=MOST, description="at most so many, newest first")]
Before = Annotated[
    int | None, Query(ge=1, le=wire.MAX_INTEGER, description="those before this one's id, as `Link` has it")
]
Upstream = Annotated[
    str | None, Query(pattern=f"^{wire.NAME.pattern}$", examples=["web"], description="of this upstream only")
]


def routes(service: Service) -> APIRouter:
    """Return the route of the audit log."""
    router = APIRouter(tags=["service"])

    @router.get(
        auth.AUDIT, operation_id="getAudit", response_model=models.Audit, responses=responses(401, 422, 503)
    )
    async def get_audit(
        response: Response, limit: Limit = 100, before: Before = None, upstream: Upstream = None
    ) -> models.Audit:
        """Return who changed what, what it was before and after; also of upstreams that are gone by now."""
        try:
            entries = await service.audit_log(before=before, most=limit + 1, upstream=upstream)
        except NotStored as error:
            raise later(f"the audit log cannot be read: {error}") from None
        if len(entries) > limit:
            following = {"before": entries[limit - 1]["id"], "limit": limit}
            query = urlencode(following if upstream is None else {**following, "upstream": upstream})
            response.headers["Link"] = f'<{auth.AUDIT}?{query}>; rel="next"'
        return models.Audit.model_validate({"entries": entries[:limit]})

    return router
