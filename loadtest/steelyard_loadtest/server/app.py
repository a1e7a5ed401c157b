"""The demo server's routes.

CPU work runs in a pool of one thread. On the event loop, a health check would
wait for every request that is ready before it, one round of 64 connections or
0.4 s under a limit of 0.15 cores; in the pool the requests queue by themselves,
and the loop answers whatever is not work at once. One thread, because Python
runs one at a time anyway: more would only share out the same CPU and make every
request late where one would be early.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from steelyard_loadtest.server import arguments
from steelyard_loadtest.server.arguments import Argument, Problem
from steelyard_loadtest.server.burn import Burners
from steelyard_loadtest.server.loopback import is_local
from steelyard_loadtest.server.matrices import one_request_of_work

DISK_THREADS = 4  # they wait and do not compute; more than one, so that the disk can queue
ECHOED = 64  # characters: a number, not a way to make the server send what one likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the routes need: who answers, its limit in cores (None: none), and its workers.

    delay_s: how late `/` answers instead of working (0: it works). disk: does one
    operation of so many bytes, asked for at a time of the monotonic clock; gives the
    seconds it took, or raises OSError.
    """

    name: str
    cpu_limit_cores: float | None
    delay_s: float
    random: Random
    burners: Burners
    disk: Callable[[int, float], float]
    cpu_pool: ThreadPoolExecutor
    disk_pool: ThreadPoolExecutor


def problem_response(problem: Problem) -> Response:
    """Tell a problem as RFC 9457 wants it."""
    return JSONResponse(problem.document(), status_code=problem.status, media_type="application/problem+json")


class Routes:
    """The handlers of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def work(self, request: Request) -> Response:
        """`/?echo=`: one request of CPU work, or an answer that is late without any; `echo` comes back."""
        echo = request.query_params.get("echo", "")[:ECHOED]
        echoed = {"echo": echo} if echo else {}
        if self._server.delay_s:
            await asyncio.sleep(self._server.delay_s)
            slept_ms = self._server.delay_s * 1000
            return JSONResponse({"server": self._server.name, "slept_ms": slept_ms, **echoed})
        loop = asyncio.get_running_loop()
        trace = await loop.run_in_executor(self._server.cpu_pool, one_request_of_work, self._server.random)
        return JSONResponse({"server": self._server.name, "trace": trace, **echoed})

    async def io(self, request: Request) -> Response:
        """`/io?bytes=`: write, sync and read back a temporary file."""
        size = arguments.read(arguments.FILE_BYTES, request.query_params)
        if isinstance(size, Problem):
            return problem_response(size)
        loop = asyncio.get_running_loop()
        try:
            asked_s = time.monotonic()
            taken_s = await loop.run_in_executor(self._server.disk_pool, self._server.disk, size, asked_s)
        except OSError as error:
            detail = f"the temporary file could not be written: {error}"
            return problem_response(Problem(status=507, title="Disk", detail=detail, extra={}))
        return JSONResponse({"server": self._server.name, "bytes": size, "disk_ms": round(taken_s * 1000, 3)})

    async def body(self, request: Request) -> Response:
        """`/bytes?n=`: a body of that many bytes."""
        size = arguments.read(arguments.BODY_BYTES, request.query_params)
        if isinstance(size, Problem):
            return problem_response(size)
        return Response(b"\0" * size, media_type="application/octet-stream")

    async def sleep(self, request: Request) -> Response:
        """`/sleep?ms=`: an answer that is late without being busy."""
        delay_ms = arguments.read(arguments.SLEEP_MS, request.query_params)
        if isinstance(delay_ms, Problem):
            return problem_response(delay_ms)
        await asyncio.sleep(delay_ms / 1000)
        return JSONResponse({"server": self._server.name, "slept_ms": delay_ms})

    async def health(self, _request: Request) -> Response:
        """`/healthz`: alive, and what the server has used, so that a load can be fitted to it."""
        return JSONResponse(
            {
                "status": "ok",
                "server": self._server.name,
                "cpu_limit_cores": self._server.cpu_limit_cores,
                "cpu_seconds": time.process_time(),
                "burners": self._server.burners.count(),
            }
        )

    async def burn(self, request: Request) -> Response:
        """`POST /burn?seconds=&workers=` starts burners, `DELETE /burn` stops them; loopback only."""
        client = request.client.host if request.client else None
        if not is_local(client, request.headers):
            detail = "burning CPU is for direct requests from this machine's loopback only"
            return problem_response(Problem(status=403, title="Forbidden", detail=detail, extra={}))
        if request.method == "DELETE":
            return JSONResponse({"server": self._server.name, "stopped": self._server.burners.stop()})
        values = {}
        wanted: tuple[Argument, ...] = (arguments.BURN_SECONDS, arguments.BURN_WORKERS)
        for argument in wanted:
            value = arguments.read(argument, request.query_params)
            if isinstance(value, Problem):
                return problem_response(value)
            values[argument.name] = value
        self._server.burners.start(seconds=values["seconds"], workers=values["workers"])
        return JSONResponse({"server": self._server.name, **values}, status_code=202)


def create_app(server: Server) -> Starlette:
    """Make the ASGI application. The header X-Served-By is uvicorn's to add: it costs nothing there."""
    routes = Routes(server)
    return Starlette(
        routes=[
            Route("/", routes.work),
            Route("/io", routes.io),
            Route("/bytes", routes.body),
            Route("/sleep", routes.sleep),
            Route("/healthz", routes.health),
            Route("/burn", routes.burn, methods=["POST", "DELETE"]),
        ]
    )
