"""The demo server's routes.

CPU work runs in a pool of one thread. On the event loop, a health check would wait for every earlier request
that is ready: one round of 64 connections, or 0.4 s under a limit of 0.15 cores. In the pool the requests
queue by themselves, and the loop answers everything else at once. There is one thread, because Python runs
one at a time anyway. More would only divide the same CPU and delay every request instead of some.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from steelyard_loadtest.server import request_checks
from steelyard_loadtest.server.burn import Burners
from steelyard_loadtest.server.pace import Pace
from steelyard_loadtest.server.request_checks import is_local, read
from steelyard_loadtest.server.trouble import Troubles
from steelyard_loadtest.server.work import traces_of_work

DISK_THREADS = 4  # they wait and do not compute; more than one, so that the disk can queue
ECHOED = 64  # characters: a number, not a way to make the server send arbitrary text


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The handlers of one server: its name, its limit in cores (None: none), its workers and its troubles.

    delay_s: `/` answers this late instead of working (0: it works). disk: does one operation of a number of
    bytes, asked for at a time of the monotonic clock. It returns the seconds it took, or raises OSError.
    """

    name: str
    cpu_limit_cores: float | None
    pace: Pace
    delay_s: float
    random: Random
    burners: Burners
    troubles: Troubles
    disk: Callable[[int, float], float]
    cpu_pool: ThreadPoolExecutor
    disk_pool: ThreadPoolExecutor

    async def work(self, request: Request) -> Response:
        """`/?work=&echo=`: CPU work, or a late answer without any; the answer contains `echo`."""
        if self.troubles.fails:
            raise HTTPException(500, f"{self.name} fails for a while, as it was asked to")
        echo = request.query_params.get("echo", "")[:ECHOED]
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
            done = {"slept_ms": self.delay_s * 1000}
        else:
            loop, times = asyncio.get_running_loop(), read(request_checks.WORK, request.query_params)
            times *= self.troubles.work_times()
            trace = await loop.run_in_executor(
                self.cpu_pool, self.pace.after, traces_of_work, self.random, times
            )
            done = {"trace": trace}
        if late_s := self.troubles.late_s:
            await asyncio.sleep(late_s)
        return JSONResponse({"server": self.name, **done, **({"echo": echo} if echo else {})})

    async def io(self, request: Request) -> Response:
        """`/io?bytes=`: write, sync and read back a temporary file."""
        size = read(request_checks.FILE_BYTES, request.query_params)
        loop, asked_s = asyncio.get_running_loop(), time.monotonic()
        try:
            taken_s = await loop.run_in_executor(self.disk_pool, self.pace.after, self.disk, size, asked_s)
        except OSError as error:
            raise HTTPException(507, f"the temporary file could not be written: {error}") from error
        return JSONResponse({"server": self.name, "bytes": size, "disk_ms": round(taken_s * 1000, 3)})

    async def body(self, request: Request) -> Response:
        """`/bytes?n=`: a body of this many bytes."""
        size = read(request_checks.BODY_BYTES, request.query_params)
        return Response(b"\0" * size, media_type="application/octet-stream")

    async def sleep(self, request: Request) -> Response:
        """`/sleep?ms=`: a late answer without being busy."""
        delay_ms = read(request_checks.SLEEP_MS, request.query_params)
        await asyncio.sleep(delay_ms / 1000)
        return JSONResponse({"server": self.name, "slept_ms": delay_ms})

    async def health(self, _request: Request) -> Response:
        """`/healthz`: alive, and the server's use of CPU, so that a load can be fitted to it."""
        return JSONResponse(
            {
                "status": "ok",
                "server": self.name,
                "cpu_limit_cores": self.cpu_limit_cores,
                "cpu_seconds": time.process_time(),
                "burners": self.burners.count(),
            }
        )

    async def burn(self, request: Request) -> Response:
        """`POST /burn?seconds=&workers=&percent=` starts burners, which take up to this part of the limit.

        `DELETE /burn` stops them, and a busy wait; loopback only.
        """
        _check_local(request)
        if request.method == "DELETE":
            return JSONResponse({"server": self.name, "stopped": self.burners.stop()})
        seconds = read(request_checks.BURN_SECONDS, request.query_params)
        workers = read(request_checks.BURN_WORKERS, request.query_params)
        percent = read(request_checks.BURN_PERCENT, request.query_params)
        part = percent / 100 if percent < request_checks.BURN_PERCENT.highest else None
        self.burners.start(seconds=seconds, workers=workers, part=part)
        return JSONResponse({"server": self.name, "seconds": seconds, "workers": workers}, status_code=202)

    async def spin(self, request: Request) -> Response:
        """`POST /spin?seconds=`: wait busily, so that all CPU of the limit is used; loopback only."""
        _check_local(request)
        seconds = read(request_checks.BURN_SECONDS, request.query_params)
        self.burners.wait_busily(seconds)
        return JSONResponse({"server": self.name, "seconds": seconds}, status_code=202)

    async def fail(self, request: Request) -> Response:
        """`POST /fail?seconds=`: `/` is 500 at once; `DELETE /fail` ends any trouble; loopback only."""
        _check_local(request)
        if request.method == "DELETE":
            self.troubles.stop()
            return JSONResponse({"server": self.name})
        seconds = read(request_checks.BURN_SECONDS, request.query_params)
        self.troubles.fail(seconds)
        return JSONResponse({"server": self.name, "seconds": seconds}, status_code=202)

    async def slow(self, request: Request) -> Response:
        """`POST /slow?seconds=&ms=`: answer `/` later by this, without being busy; loopback only."""
        _check_local(request)
        seconds = read(request_checks.BURN_SECONDS, request.query_params)
        late_ms = read(request_checks.SLEEP_MS, request.query_params)
        self.troubles.slow(seconds, late_ms / 1000)
        return JSONResponse({"server": self.name, "seconds": seconds, "ms": late_ms}, status_code=202)

    async def cold(self, request: Request) -> Response:
        """`POST /cold?entries=&times=`: an empty cache; misses at `/` are work; loopback only."""
        _check_local(request)
        size = read(request_checks.COLD_ENTRIES, request.query_params)
        times = read(request_checks.COLD_TIMES, request.query_params)
        self.troubles.cold(size, times)
        return JSONResponse({"server": self.name, "entries": size, "times": times}, status_code=202)


def _check_local(request: Request) -> None:
    client = request.client.host if request.client else None
    if not is_local(client, request.headers):
        why = f"{request.url.path} is for direct requests from this machine's loopback only"
        raise HTTPException(403, why)


def create_app(server: Server) -> Starlette:
    """Make the ASGI application. uvicorn adds the header X-Served-By, where it costs nothing."""
    routes = [
        Route("/", server.work),
        Route("/io", server.io),
        Route("/bytes", server.body),
        Route("/sleep", server.sleep),
        Route("/healthz", server.health),
        Route("/burn", server.burn, methods=["POST", "DELETE"]),
        Route("/spin", server.spin, methods=["POST"]),
        Route("/fail", server.fail, methods=["POST", "DELETE"]),
        Route("/slow", server.slow, methods=["POST"]),
        Route("/cold", server.cold, methods=["POST"]),
    ]
    return Starlette(routes=routes)
