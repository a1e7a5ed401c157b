"""The controller's process: settings, the service, the REST API, HAProxy's agent-check, a clean end."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import uvicorn
from fastapi import FastAPI
from steelyard_agent.secret_file import SecretFileError

from steelyard_controller import assembly, credentials, descriptors, log_lines
from steelyard_controller.api import app as api
from steelyard_controller.api import connection
from steelyard_controller.api.auth import is_loopback
from steelyard_controller.api.door import Door, Limits
from steelyard_controller.credentials import Credentials
from steelyard_controller.haproxy.agent_check import AgentCheck
from steelyard_controller.service import Service
from steelyard_controller.settings import Settings, SettingsError, load
from steelyard_controller.state.saved import Newer

log = logging.getLogger("steelyard.controller")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the controller until it is told to stop; return the exit status."""
    try:
        settings = load(sys.argv[1:] if arguments is None else arguments)
        known = credentials.read(settings)
    except (SettingsError, SecretFileError) as error:
        for line in str(error).splitlines():
            print(f"steelyard-controller: {line}", file=sys.stderr)
        return 2
    log_lines.install(settings.log_level, settings.log_format)
    try:
        return asyncio.run(_serve(settings, known))
    except KeyboardInterrupt:
        return 0


async def _serve(settings: Settings, known: Credentials) -> int:
    allowed = descriptors.raise_limit()
    for line in (*credentials.warnings(settings), *_remarks(settings, known, allowed)):
        log.warning("%s", line)
    async with assembly.controller(settings, known) as service:
        try:
            await service.open()
            return await _listen(settings, known, service)
        except Newer as error:
            log.error("%s", error)
            return 1


async def _listen(settings: Settings, known: Credentials, service: Service) -> int:
    haproxy = AgentCheck(service)
    if settings.agent_check_port is not None:
        try:
            await haproxy.start(settings.agent_check_host, settings.agent_check_port)
        except OSError as error:
            log.error("HAProxy's agent-check: %s; choose another --agent-check-port", error)
            return 1
        where = f"{assembly.in_url(settings.agent_check_host)}:{settings.agent_check_port}"
        log.info("HAProxy's agent-check on %s", where, extra={"event": "listening"})
    server = _Server(
        uvicorn.Config(
            api.create(
                service,
                lifespan=_running(service),
                key=known.key,
                access=known.access,
                max_body_bytes=settings.max_body_bytes,
            ),
            host=settings.api_host,
            port=settings.api_port,
            http=connection.through(Door(Limits())),
            ws="none",
            # Its warnings are about what clients send, one a request: anybody could fill the log.
            log_level="error",
            access_log=False,
            # Who asks is who holds the connection: X-Forwarded-For is anybody's word.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
    )
    log.info(
        "the page and the REST API on http://%s:%d",
        assembly.in_url(settings.api_host),
        settings.api_port,
        extra={"event": "listening"},
    )
    await server.serve()
    await haproxy.stop()
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """A server that ends its open streams when it stops, because it waits for every connection."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT; uvicorn's own raises them again after a clean end, which hides it."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self.config.app.state.streams.end()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def _remarks(settings: Settings, known: Credentials, descriptors_allowed: int) -> list[str]:
    """Return what a person should know of how this controller was set up."""
    remarks = []
    if descriptors_allowed < descriptors.ENOUGH:
        remarks.append(
            f"{descriptors_allowed} descriptors may be open: connections to its ports could take those that "
            f"ticks need; raise the limit (ulimit -n, LimitNOFILE) to {descriptors.ENOUGH}"
        )
    if settings.state_url.startswith("memory://"):
        remarks.append("state is kept in memory only (--state-url memory://): a restart forgets it")
    if settings.api_host != "localhost" and not is_loopback(settings.api_host):
        if not known.access.has("read"):
            remarks.append("everybody who reaches the API may read it: set --read-token-file to change that")
        if not known.access.has("admin"):
            remarks.append("only this machine may change anything: set --admin-token-file to change that")
    return remarks


def _running(service: Service) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(service.run(), name="service")
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    return lifespan


if __name__ == "__main__":
    sys.exit(main())
