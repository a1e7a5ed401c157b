"""The FastAPI application: the middleware and the routes over the service."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from opentelemetry.trace import TracerProvider
from starlette.exceptions import HTTPException

from steelyard_controller.api import (
    guarded_route,
    metrics,
    middleware,
    openapi,
    page_files,
    problems,
    routes_events,
    routes_peers,
    routes_upstreams,
    routes_weights,
    validation_errors,
)
from steelyard_controller.api import routes_service as controller
from steelyard_controller.api.body_limit import BodyLimit
from steelyard_controller.api.forward_to_leader import ForwardToLeader, LeaderConnections
from steelyard_controller.api.guarded_route import Guard
from steelyard_controller.api.metrics import MetricsPage
from steelyard_controller.api.problems import ProblemError
from steelyard_controller.api.streams import Streams
from steelyard_controller.api.token_file import TokenFile
from steelyard_controller.api.tokens import Access
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.service import Service

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

MAX_BODY_BYTES = 2**20

# Machines ask every few seconds, and no person looks for these; a stream of events ends with its reader.
WITHOUT_SPANS = frozenset({"/healthz", "/readyz", "/metrics", "/v1/events"})


def create(
    service: Service,
    *,
    lifespan: Lifespan | None = None,
    keys: Keyring | None = None,
    access: Access | None = None,
    token_file: TokenFile | None = None,
    max_body_bytes: int = MAX_BODY_BYTES,
    metrics_servers: int = metrics.MOST_SERVERS,
    tracer_provider: TracerProvider | None = None,
    connections: LeaderConnections | None = None,
) -> FastAPI:
    """Return the application over a service.

    `lifespan` runs the service, `keys` sign the weight tables, and `access` has the tokens (default: none).
    `token_file` has the present tokens, if there is such a file. Above `metrics_servers` servers, `/metrics`
    has no per-server series. `tracer_provider` gets a span of each request (default: none). `connections`
    lead to the leader (default: HTTP). Call `app.state.streams.end()` before the server is stopped: it waits
    for streams.
    """
    streams, connections = Streams(), connections or LeaderConnections()

    @contextlib.asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        async with lifespan(app) if lifespan is not None else contextlib.nullcontext():
            yield
            streams.end()
            await connections.close()

    app = FastAPI(
        # The framework's own route would have no guard.
        openapi_url=None,
        title=openapi.TITLE,
        summary="Weights that follow the load",
        description=openapi.DESCRIPTION,
        version=service.version,
        openapi_tags=openapi.TAGS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        lifespan=living,
        telemetry={
            "tracer_provider": tracer_provider,
            "tracing": tracer_provider is not None,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": lambda scope: scope["path"] in WITHOUT_SPANS,
        },
    )
    app.state.streams = streams
    for router in (
        page_files.routes(),
        routes_upstreams.routes(service),
        routes_weights.routes(service, keys=keys or Keyring()),
        routes_peers.routes(service),
        routes_events.routes(service, streams),
        controller.routes(service, MetricsPage(service, most_servers=metrics_servers)),
        openapi.routes(),
    ):
        # An included router builds each route a second time, for a third of this function's CPU time.
        app.router.routes.extend(router.routes)
    openapi.install(app, access or Access())
    guard = Guard(
        access=(lambda: access or Access()) if token_file is None else token_file.access,
        bodies=BodyLimit(max_body_bytes),
        leader=ForwardToLeader(service, streams, connections),
    )
    guarded_route.install(app, guard)
    _install_problems(app, guard)
    # The last one added is the outermost.
    app.add_middleware(middleware.HeadAsGet)
    app.add_middleware(middleware.Problems)
    app.add_middleware(middleware.Answers, answered=service.instruments.answered)
    return app


def _install_problems(app: FastAPI, guard: Guard) -> None:
    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        path = request.url.path
        if isinstance(error, ProblemError):
            return problems.answer(error)
        guard.refuse_strangers(request)
        if error.status_code == 405:
            # The framework's header has the methods of one route alone.
            template = request.scope["route"].path_format
            allow = ", ".join(openapi.allowed(app, template)) or (error.headers or {}).get("Allow", "")
            message = f"{request.method[:32]} is not for {path[:200]}; it takes: {allow}"
            return problems.answer(ProblemError(405, message, headers={"Allow": allow}))
        if error.status_code == 404:
            return problems.answer(
                ProblemError(404, f"there is nothing at {path[:200]}; /docs lists the paths")
            )
        return problems.answer(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        return problems.answer(problems.invalid(validation_errors.of_parameters(error.errors())))
