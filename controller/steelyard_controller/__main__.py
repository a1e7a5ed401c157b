"""The controller's process: reads the settings, runs the service, the REST API and the agent-check."""

if __name__ == "__main__":  # before the other imports, because ctrl-C may come during them
    from steelyard_controller.console_scripts import controller

    raise SystemExit(controller())


import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI
from opentelemetry.trace import TracerProvider
from steelyard_protocol import completion, listening, peer_address
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError

from steelyard_controller import credentials, garbage, log_format, wiring
from steelyard_controller.api import app as api
from steelyard_controller.api import connection_limits
from steelyard_controller.api.connection_limits import ConnectionLimiter
from steelyard_controller.api.token_file import TokenFile
from steelyard_controller.credentials import Credentials
from steelyard_controller.discovery.api_server import AccessError, ApiServer
from steelyard_controller.flags import FLAGS
from steelyard_controller.haproxy.agent_check import AgentCheck
from steelyard_controller.service import Service
from steelyard_controller.settings import Settings, is_loopback, load
from steelyard_controller.store.saved_state import NewerVersion

if TYPE_CHECKING:
    from steelyard_controller.xds.xds_server import XdsServer

log = logging.getLogger("steelyard.controller")

# The API's 1000 connections, as many of the agent-check's, streams to a leader, and room for Redis and
# Memcached. Clients on these ports must not keep a tick from its own connections.
ENOUGH_DESCRIPTORS = 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the controller until a signal stops it; return the exit status."""
    completion.of_flags(FLAGS)
    try:
        settings = load(sys.argv[1:] if arguments is None else arguments, os.environ)
        log_format.install(settings.log_level, settings.log_format)
        known = credentials.read(settings)
        cluster = ApiServer() if settings.kubernetes else None
        spans = wiring.span_export(settings, os.environ)
        make_xds = wiring.xds_server(settings, known)
    except (SettingsError, SecretFileError) as error:
        for line in str(error).splitlines():
            print(f"steelyard-controller: {line}", file=sys.stderr)
        return 2
    except AccessError as error:
        print(f"steelyard-controller: kubernetes: {error}", file=sys.stderr)
        return 2
    gc.set_threshold(*garbage.THRESHOLDS)
    try:
        return asyncio.run(_serve(settings, known, cluster, spans.provider if spans else None, make_xds))
    except KeyboardInterrupt:
        return 0
    finally:
        if spans is not None:
            spans.close()


async def _serve(
    settings: Settings,
    known: Credentials,
    cluster: ApiServer | None,
    tracer_provider: TracerProvider | None,
    make_xds: "Callable[[Service], XdsServer] | None",
) -> int:
    allowed = _raise_descriptor_limit()
    for line in (*credentials.warnings(settings), *_warnings(settings, known, allowed)):
        log.warning("%s", line)
    async with wiring.controller(settings, known, cluster, tracer_provider) as service:
        try:
            await service.open()
            async with contextlib.AsyncExitStack() as stack:
                if make_xds is not None and settings.xds_port is not None:
                    where = listening.grpc_target(settings.xds_host, settings.xds_port)
                    await stack.enter_async_context(_envoys(make_xds(service), where))
                status = await _listen(settings, known, service, tracer_provider)
            if service.leader_loop.is_abandoned:
                # A hanging thread would keep the interpreter from ending.
                logging.shutdown()
                os._exit(1)
            return status
        except (NewerVersion, XdsPortTaken) as error:
            log.error("%s", error)
            return 1


class XdsPortTaken(Exception):
    """The port for Envoys is not available."""


@contextlib.asynccontextmanager
async def _envoys(server: "XdsServer", where: str) -> AsyncIterator[None]:
    try:
        await server.start(where)
    except OSError as error:
        raise XdsPortTaken(f"xDS for Envoy: {error}; choose another --xds-port") from None
    log.info("xDS for Envoy on %s", where, extra={"event": "listening"})
    running = asyncio.create_task(server.run(), name="xds")
    try:
        yield
    finally:
        await server.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _listen(
    settings: Settings, known: Credentials, service: Service, tracer_provider: TracerProvider | None
) -> int:
    haproxy = AgentCheck(service)
    if settings.agent_check_port is not None:
        try:
            await haproxy.start(listening.asyncio_host(settings.agent_check_host), settings.agent_check_port)
        except OSError as error:
            log.error("HAProxy's agent-check: %s; choose another --agent-check-port", error)
            return 1
        where = peer_address.join(settings.agent_check_host, settings.agent_check_port)
        log.info("HAProxy's agent-check on %s", where, extra={"event": "listening"})
    file = settings.tokens_file
    tokens = None if file is None else TokenFile(file, known.access, service.faults.note)
    server = _Server(
        uvicorn.Config(
            api.create(
                service,
                lifespan=_running(service, tokens, ended=lambda: server.fail()),
                keys=known.keys,
                access=known.access,
                token_file=tokens,
                max_body_bytes=settings.max_body_bytes,
                metrics_servers=settings.metrics_servers,
                tracer_provider=tracer_provider,
            ),
            host=listening.asyncio_host(settings.api_host),
            port=settings.api_port,
            http=connection_limits.protocol_limited_by(ConnectionLimiter()),
            ws="none",
            # Its warnings are about clients' requests: any client could fill the log.
            log_level="error",
            access_log=False,
            # The client is the other end of the connection: anybody can send X-Forwarded-For.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
    )
    log.info(
        "the page and the REST API on http://%s",
        peer_address.join(settings.api_host, settings.api_port),
        extra={"event": "listening"},
    )
    if known.generated_file is not None and known.not_generated is None:
        log.info(
            "a change needs the token in %s, as no --admin-token-file is given: `steelyard` finds it there, "
            "and `steelyard page` prints the page's link with it",
            known.generated_file,
            extra={"event": "token"},
        )
    await server.serve()
    await haproxy.stop()
    return 0 if server.started and not server.failed else 1


class _Server(uvicorn.Server):
    """A uvicorn server that ends the open streams when it stops, because it waits for every connection."""

    failed = False

    def fail(self) -> None:
        """Stop, because the service has ended."""
        self.failed = self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGTERM and SIGINT; uvicorn's own handler raises them again and spoils the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams, then stop."""
        self.config.app.state.streams.end()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def _warnings(settings: Settings, known: Credentials, descriptors_allowed: int) -> list[str]:
    """Return warnings about the configuration: open to everybody, state in memory only, few descriptors."""
    remarks = []
    if descriptors_allowed < ENOUGH_DESCRIPTORS:
        remarks.append(
            f"{descriptors_allowed} descriptors may be open, too few beside clients' connections: raise the "
            f"limit (ulimit -n, LimitNOFILE) to {ENOUGH_DESCRIPTORS}"
        )
    if settings.state_url.startswith("memory://"):
        remarks.append("state is kept in memory only (--state-url memory://): a restart forgets it")
    if known.not_generated is not None:
        remarks.append(
            "changes are disabled: no --admin-token-file is given, and the controller cannot keep its own "
            f"token: {known.not_generated}"
        )
    if not is_loopback(settings.api_host) and not known.access.has("read"):
        remarks.append("reading the API needs no token: set --read-token-file to change that")
    return remarks


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open descriptors as far as needed and allowed; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < ENOUGH_DESCRIPTORS:
        soft = ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(ENOUGH_DESCRIPTORS, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return ENOUGH_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def _running(
    service: Service, tokens: TokenFile | None, *, ended: Callable[[], None]
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    async def run() -> None:
        try:
            await service.run()
        except Exception:
            # An API that answers without a ticking service behind it is down.
            log.critical("the controller ends because of an unexpected error", exc_info=True)
            ended()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        running = [
            asyncio.create_task(run(), name="service"),
            asyncio.create_task(garbage.collect_periodically(), name="garbage"),
        ]
        if tokens is not None:
            running.append(asyncio.create_task(tokens.watch(), name="tokens"))
        yield
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    return lifespan
