"""The application: routes over the cycles' outcomes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Header, HTTPException, Response
from fastapi.responses import PlainTextResponse
from steelyard_agent import signature

from steelyard_controller.api import metrics, problems
from steelyard_controller.outcome import Outcome, explanation, overview
from steelyard_controller.upstream import Upstream
from steelyard_controller.weight_table import to_json


class Source(Protocol):
    """What the API reads: a cycle, or in a test something like it."""

    name: str
    upstream: Upstream
    outcome: Outcome | None
    overruns: int


NOT_FOUND: dict[int | str, dict[str, Any]] = {
    404: {"model": problems.Problem, "description": "No such thing"}
}
NOT_YET: dict[int | str, dict[str, Any]] = {
    503: {"model": problems.Problem, "description": "Before the first tick"}
}


SIGNATURE_HEADER = "Steelyard-Signature"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create(
    cycles: Mapping[str, Source], *, lifespan: Lifespan | None = None, key: bytes | None = None
) -> FastAPI:
    """Return the application over `cycles`, by upstream; `lifespan` runs them, `key` signs the tables."""
    app = FastAPI(
        title="Steelyard",
        summary="Weights that follow the load",
        version="0.1.0",
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)

    def cycle_of(upstream: str) -> Source:
        if upstream not in cycles:
            known = ", ".join(sorted(cycles)) or "none"
            raise HTTPException(404, f"no upstream is called {upstream}; there are: {known}")
        return cycles[upstream]

    def outcome_of(upstream: str) -> Outcome:
        outcome = cycle_of(upstream).outcome
        if outcome is None:
            raise HTTPException(503, f"{upstream} has not had its first tick", headers={"Retry-After": "1"})
        return outcome

    @app.get("/v1/upstreams", operation_id="listUpstreams", tags=["upstreams"])
    async def list_upstreams() -> dict[str, list[str]]:
        """Return the names of the upstreams."""
        return {"upstreams": sorted(cycles)}

    @app.get(
        "/v1/upstreams/{upstream}",
        operation_id="getUpstream",
        tags=["upstreams"],
        responses=NOT_FOUND | NOT_YET,
    )
    async def get_upstream(upstream: str) -> dict[str, Any]:
        """Return an upstream's weights beside the samples and reports that led to them."""
        cycle = cycle_of(upstream)
        return overview(outcome_of(upstream), cycle.upstream)

    @app.get(
        "/v1/upstreams/{upstream}/weights",
        operation_id="getWeights",
        tags=["upstreams"],
        responses=NOT_FOUND | NOT_YET | {304: {"description": "The table has not changed"}},
    )
    async def get_weights(upstream: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Return the weight table as it was published; the ETag is term.generation.

        With a shared key set, the header Steelyard-Signature is the HMAC-SHA256 of the body's bytes.
        """
        table = outcome_of(upstream).table
        tag = f'"{table.term}.{table.generation}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        offered = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
        if tag in offered or "*" in offered:
            return Response(status_code=304, headers=headers)
        body = to_json(table)
        if key is not None:
            headers[SIGNATURE_HEADER] = signature.digest(key, body)
        return Response(body, media_type="application/json", headers=headers)

    @app.get(
        "/v1/upstreams/{upstream}/peers/{peer}/explain",
        operation_id="explainPeer",
        tags=["peers"],
        responses=NOT_FOUND | NOT_YET,
    )
    async def explain_peer(upstream: str, peer: str) -> dict[str, Any]:
        """Return all that led to a peer's weight, and one sentence that says it."""
        outcome = outcome_of(upstream)
        if peer not in outcome.decision.ids:
            known = ", ".join(outcome.decision.ids) or "none"
            raise HTTPException(404, f"{upstream} has no peer {peer}; there are: {known}")
        return explanation(outcome, peer)

    @app.get("/healthz", operation_id="healthz", tags=["service"])
    async def healthz() -> dict[str, str]:
        """Answer while the process serves requests."""
        return {"status": "ok"}

    @app.get("/readyz", operation_id="readyz", tags=["service"], responses=NOT_YET)
    async def readyz() -> dict[str, Any]:
        """Answer 200 once every upstream has had its first tick; name what is degraded."""
        waiting = sorted(name for name, cycle in cycles.items() if cycle.outcome is None)
        if waiting:
            raise HTTPException(503, f"waiting for the first tick of {', '.join(waiting)}")
        degraded = {
            name: list(cycle.outcome.degraded)
            for name, cycle in cycles.items()
            if cycle.outcome is not None and cycle.outcome.degraded
        }
        return {"status": "degraded" if degraded else "ok", "degraded": degraded}

    @app.get("/metrics", operation_id="metrics", tags=["service"], response_class=PlainTextResponse)
    async def get_metrics() -> Response:
        """Return Prometheus metrics."""
        return Response(metrics.render(cycles), media_type=metrics.MEDIA_TYPE)

    return app
