"""The controller's process: settings, one cycle per upstream, the REST API, a clean end."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence

import uvicorn
from fastapi import FastAPI
from steelyard_agent import key_file
from steelyard_agent.key_file import KeyFileError

from steelyard_controller import state
from steelyard_controller.api import app as api
from steelyard_controller.cycle import Cycle
from steelyard_controller.memcached import Memcached
from steelyard_controller.saved import Newer
from steelyard_controller.settings import Settings, SettingsError, load

log = logging.getLogger("steelyard.controller")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the controller until it is told to stop; return the exit status."""
    try:
        settings = load(sys.argv[1:] if arguments is None else arguments)
        key = _key(settings)
    except (SettingsError, KeyFileError) as error:
        for line in str(error).splitlines():
            print(f"steelyard-controller: {line}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    try:
        return asyncio.run(_serve(settings, key))
    except KeyboardInterrupt:
        return 0


def _key(settings: Settings) -> bytes | None:
    return settings.key_of_environment() if settings.key_file is None else key_file.read(settings.key_file)


async def _serve(settings: Settings, key: bytes | None) -> int:
    pipeline = Memcached(settings.memcached)
    unsafe = None if settings.key_file is None else key_file.warning(settings.key_file)
    if unsafe is not None:
        log.warning("%s", unsafe)
    store = state.open_store(settings.state_url)
    if store.volatile:
        log.warning("state is kept in memory only (--state-url memory://): a restart forgets it")
    if not settings.upstreams:
        log.warning("no upstream is declared: name some in a YAML file and pass it as --config FILE")
    cycles = {
        name: Cycle(name, upstream, pipeline=pipeline, store=store, tick_s=settings.tick_s, key=key)
        for name, upstream in settings.upstreams.items()
    }
    try:
        for cycle in cycles.values():
            await cycle.start(unix_s=int(time.time()))
    except Newer as error:
        log.error("%s", error)
        return 1
    app = api.create(cycles, lifespan=_running(cycles), key=key)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=settings.api_host,
            port=settings.api_port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
    )
    log.info(
        "REST API on http://%s:%d, upstreams: %s",
        settings.api_host,
        settings.api_port,
        ", ".join(cycles) or "none",
    )
    await server.serve()
    pipeline.close()
    await store.close()
    return 0 if server.started else 1


def _running(cycles: dict[str, Cycle]) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(cycle.run(), name=f"cycle {name}") for name, cycle in cycles.items()]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    return lifespan


if __name__ == "__main__":
    sys.exit(main())
