"""Builds a controller from its settings: Memcached client, store, election, tick loop, service."""

import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from opentelemetry.trace import TracerProvider
from steelyard_protocol import listening, peer_address
from steelyard_protocol.memcached_pool import MemcachedPool
from steelyard_protocol.program_settings import SettingsError

from steelyard_controller import __version__
from steelyard_controller.credentials import Credentials
from steelyard_controller.discovery.api_server import ApiServer
from steelyard_controller.discovery.discovery import Discovery
from steelyard_controller.dns.peer_addresses import PeerAddresses
from steelyard_controller.dns.resolver import Resolver
from steelyard_controller.faults import Faults
from steelyard_controller.instruments import Instruments
from steelyard_controller.leader.election import Election
from steelyard_controller.service import Service
from steelyard_controller.settings import Settings
from steelyard_controller.store.interface import Store
from steelyard_controller.store.memory_store import MemoryStore
from steelyard_controller.store.redis_store import RedisStore
from steelyard_controller.tick.tick_loop import TickLoop

if TYPE_CHECKING:
    from steelyard_controller.span_export import SpanExport
    from steelyard_controller.xds.xds_server import XdsServer


@asynccontextmanager
async def controller(
    settings: Settings,
    known: Credentials,
    cluster: ApiServer | None = None,
    tracer_provider: TracerProvider | None = None,
) -> AsyncIterator[Service]:
    """Yield a service that is not running yet; close its connections at the end of the block.

    cluster           the API server of the Kubernetes cluster whose Services declare upstreams
    tracer_provider   the receiver of the ticks' spans
    """
    faults = Faults()
    instruments = Instruments(__version__)
    name = _name(settings)
    pipeline = MemcachedPool(settings.memcached, took=instruments.memcached_took)
    store = _store(settings, known, instruments)
    loop = _tick_loop(settings, known, pipeline, store, faults, tracer_provider)
    naming = PeerAddresses(Resolver(), faults_of=loop.faults_of, clock=time.monotonic)
    try:
        yield Service(
            id=name,
            installation=settings.installation,
            loop=loop,
            election=_election(settings, name, store, faults),
            store=store,
            faults=faults,
            file=settings.upstreams,
            tick_s=settings.tick_s,
            lease_s=settings.lease_s,
            version=__version__,
            instruments=instruments,
            addresses=naming.addresses,
            discovery=None if cluster is None else _discovery(settings, cluster, faults),
        )
    finally:
        await naming.close()
        pipeline.close()
        await store.close()


def _tick_loop(
    settings: Settings,
    known: Credentials,
    pipeline: MemcachedPool,
    store: Store,
    faults: Faults,
    tracer_provider: TracerProvider | None,
) -> TickLoop:
    tracer = None
    if tracer_provider is not None:
        tracer = tracer_provider.get_tracer("steelyard_controller", __version__)
    return TickLoop(
        pipeline=pipeline,
        store=store,
        installation=settings.installation,
        tick_s=settings.tick_s,
        history_s=settings.history_s,
        keys=known.keys,
        load_balancers=settings.load_balancers,
        faults=faults,
        tracer=tracer,
    )


def _election(settings: Settings, name: str, store: Store, faults: Faults) -> Election:
    return Election(
        store,
        holder=name,
        boot=secrets.token_hex(4),
        url=settings.advertise_url or _own_url(settings),
        lease_s=settings.lease_s,
        # It counts on while this process is stopped or the machine sleeps, like the lease in Redis.
        clock=lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        unix=time.time,
        faults=faults,
    )


def _discovery(settings: Settings, cluster: ApiServer, faults: Faults) -> Discovery:
    return Discovery(
        cluster,
        namespaces=settings.namespaces,
        faults=faults,
        tick_s=settings.tick_s,
        allowed=settings.kubernetes_claims,
    )


def span_export(settings: Settings, environment: Mapping[str, str]) -> "SpanExport | None":
    """Return the sender of spans if OpenTelemetry's variables request it; raise `SettingsError`."""
    if not _asks_for_spans(environment):
        return None
    try:
        # Its SDK takes 15 MB, so it is imported only when needed.
        from steelyard_controller.span_export import SpanExport

        return SpanExport(id=_name(settings), version=__version__)
    except ImportError as error:
        raise SettingsError(
            "OTEL_... variables ask for spans, which takes OpenTelemetry's SDK: pip install "
            f"'steelyard-controller[otel]', or set OTEL_SDK_DISABLED=true: {error}"
        ) from None
    except ValueError as error:
        raise SettingsError(f"an OTEL_... variable is not as OpenTelemetry's SDK wants it: {error}") from None


def xds_server(settings: Settings, known: Credentials) -> "Callable[[Service], XdsServer] | None":
    """Return the maker of the server for Envoys if its port is set; raise `SettingsError`."""
    if settings.xds_port is None:
        return None
    try:
        # gRPC's own log has a line for each stray connection.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        # It takes 20 MB, so it is imported only when needed.
        from steelyard_controller.xds.xds_server import XdsServer, tls

        files = settings.xds_cert_file, settings.xds_cert_key_file, settings.xds_client_ca_file
        credentials = tls(*filter(None, files)) if any(files) else None
    except ImportError as error:
        raise SettingsError(
            f"--xds-port requires gRPC: pip install 'steelyard-controller[xds]': {error}"
        ) from None
    except OSError as error:
        raise SettingsError(f"xds: {error.filename} cannot be read: {error.strerror}") from None
    return lambda service: XdsServer(
        service, memcached=settings.memcached, keys=known.keys, credentials=credentials
    )


def _asks_for_spans(environment: Mapping[str, str]) -> bool:
    def value(*names: str) -> tuple[str, str]:
        """Return the first set variable among these, and its value."""
        return next(((name, environment[name].strip()) for name in names if environment.get(name)), ("", ""))

    _, is_disabled = value("OTEL_SDK_DISABLED")
    _, exporter = value("OTEL_TRACES_EXPORTER")
    name, endpoint = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if is_disabled.lower() == "true" or exporter == "none" or not (exporter or endpoint):
        return False
    if exporter not in {"", "otlp"}:
        raise SettingsError(f"OTEL_TRACES_EXPORTER is {exporter[:70]!r}: it may be otlp or none")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise SettingsError(f"{name} is {endpoint[:70]!r}: write it as http://host:4318")
    name, protocol = value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in {"", "http/protobuf"}:
        raise SettingsError(f"{name} is {protocol[:70]!r}: it may be http/protobuf (a collector's port 4318)")
    return True


def _name(settings: Settings) -> str:
    return settings.id or f"{socket.gethostname()}-{settings.api_port}"


def _own_url(settings: Settings) -> str:
    """Return this API's URL for other controllers, with the machine's name if it listens everywhere."""
    everywhere = settings.api_host in {listening.EVERYWHERE, "0.0.0.0", "::"}  # noqa: S104
    host = socket.gethostname() if everywhere else settings.api_host
    return f"http://{peer_address.join(host, settings.api_port)}"


def _store(settings: Settings, known: Credentials, instruments: Instruments) -> Store:
    if settings.state_url.startswith("memory://"):
        return MemoryStore()
    return RedisStore(
        settings.state_url,
        installation=settings.installation,
        password=known.state_password,
        sentinel_password=known.sentinel_password,
        wait_replicas=settings.wait_replicas,
        took=instruments.redis.observe,
    )
