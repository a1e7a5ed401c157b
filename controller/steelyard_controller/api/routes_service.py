"""The routes of the controller itself: /v1/audit, /v1/service, /v1/laws, /healthz, /readyz and /metrics."""

import json
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse
from steelyard_protocol import name_list, wire

from steelyard_controller import laws
from steelyard_controller.api import auth, metrics, models, request_body
from steelyard_controller.api.guarded_route import guarded_router
from steelyard_controller.api.metrics import MetricsPage
from steelyard_controller.api.problems import ProblemError, responses, retry_later
from steelyard_controller.api.routes_events import Upstream
from steelyard_controller.declarations import audit
from steelyard_controller.service import Service
from steelyard_controller.store.interface import Unavailable

# /readyz is asked every few seconds, also without a token; /v1/upstreams has every upstream.
MOST_UPSTREAMS = 20

VOLATILE = "memory: nothing outlives a restart"

Limit = Annotated[int, Query(ge=1, le=1000, description="entries, newest first (default 100, max 1000)")]
Before = Annotated[
    int | None, Query(ge=1, le=wire.MAX_INTEGER, description="only entries before this id, from `Link`")
]
Origin = Annotated[
    audit.Origin | None, Query(description="only changes by people, by machines or by configuration files")
]


class Ready:
    """Readiness: whether requests may be sent to this controller.

    A leader that was ready once stays so for its term. An upstream declared later has its first
    tick a moment later, and must not take the controller out of service for that moment.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._term: int | None = None

    def waits_for(self) -> str | None:
        """Return the reason to wait; None if it is ready."""
        role, leader = self._service.role, self._service.leader
        if self._service.leader_loop.stuck_s > 0:
            return f"a tick has made no progress for {self._service.leader_loop.stuck_s:.0f} s"
        if role == "waiting" or leader is None:
            return "this controller neither leads nor knows a leader"
        if role == "standby":
            return "this controller is taking over" if leader.holder == self._service.id else None
        if self._term == self._service.term:
            return None
        young = sorted(name for name, cycle in self._service.views.items() if cycle.outcome is None)
        if young:
            return f"waiting for the first tick of {name_list.shown(young, MOST_UPSTREAMS)}"
        self._term = self._service.term
        return None


def routes(service: Service, page: MetricsPage) -> APIRouter:
    """Return the routes of the controller itself; `page` has its metrics."""
    router = guarded_router("service")
    ready = Ready(service)

    @router.get("/v1/audit", response_model=models.Audit, responses=responses(401, 422, 503))
    @auth.needs("read", always_token=True)
    async def get_audit(
        limit: Limit = 100, before: Before = None, upstream: Upstream = None, origin: Origin = None
    ) -> Response:
        """Return the changes with their authors, values before and after; of deleted upstreams, too."""
        try:
            entries = await service.audit_log(before=before, most=limit + 1, upstream=upstream, origin=origin)
        except Unavailable as error:
            raise retry_later(f"the audit log cannot be read: {error}") from None
        headers = {}
        if len(entries) > limit:
            following = {
                "before": entries[limit - 1]["id"],
                "limit": limit,
                "upstream": upstream,
                "origin": origin,
            }
            query = urlencode({name: each for name, each in following.items() if each is not None})
            headers["Link"] = f'</v1/audit?{query}>; rel="next"'
        text = json.dumps({"entries": entries[:limit]}, allow_nan=False)
        return Response(text, media_type=request_body.JSON, headers=headers)

    @router.get("/v1/service", responses=responses(401))
    @auth.needs("read", is_local=True)
    async def get_service() -> models.ServiceDocument:
        """Return this controller's role, its term, the leader, and its faults."""
        return models.ServiceDocument.model_validate(service.document())

    @router.get("/v1/laws", responses=responses(401))
    @auth.needs("read", is_local=True)
    async def list_laws() -> models.Laws:
        """Return every law: a description, its colour, the steps to a weight, its parameters."""
        return models.Laws.model_validate(laws.describe())

    @router.get("/healthz", responses=responses(503))
    @auth.open_to_all
    async def healthz() -> models.Health:
        """Answer 200 while the process works, 503 once a tick is stuck and only a restart helps.

        An unreachable store or Memcached does not matter here.
        """
        ticks = service.leader_loop
        if ticks.is_dead:
            raise ProblemError(503, f"a tick has made no progress for {ticks.stuck_s:.0f} s: restart it")
        return models.Health()

    @router.get("/readyz", responses=responses(503))
    @auth.open_to_all
    async def readyz() -> models.Readiness:
        """Answer 200 once this controller can serve, leading or standing by; name what is degraded."""
        state = VOLATILE if service.volatile else "redis"
        waits_for = ready.waits_for()
        degraded = list(service.degraded)
        if waits_for is not None:
            raise ProblemError(
                503,
                waits_for,
                headers={"Retry-After": "1"},
                more={"role": service.role, "state": state, "degraded": degraded},
            )
        upstreams = {
            name: list(cycle.outcome.degraded)
            for name, cycle in service.views.items()
            if cycle.outcome is not None and cycle.outcome.degraded
        }
        shown = sorted(upstreams)[:MOST_UPSTREAMS]
        return models.Readiness(
            status="degraded" if degraded or upstreams else "ok",
            role=service.role,
            state=state,
            degraded=degraded,
            upstreams={name: upstreams[name] for name in shown},
            more=len(upstreams) - len(shown),
        )

    @router.get(
        "/metrics",
        operation_id="metrics",
        response_class=PlainTextResponse,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"},
            **responses(401),
        },
    )
    @auth.needs("read", is_local=True)
    async def get_metrics() -> Response:
        """Return Prometheus metrics."""
        return Response(await page.text(), media_type=metrics.MEDIA_TYPE)

    return router
