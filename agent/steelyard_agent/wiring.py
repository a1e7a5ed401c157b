"""Builds the agent's parts from its settings: one server's agent, or that of the pods of a node.

At a reload, a listener with the same address is kept, because a port can have only one, and so are the known
pods. All other parts are built anew.
"""

import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil
from steelyard_protocol import memcached_writer, peer_address, secret_file
from steelyard_protocol.memcached_client import MemcachedClient
from steelyard_protocol.memcached_writer import MemcachedServer, MemcachedWriter
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.setting_values import Address

from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.indicators.fetch import fetch
from steelyard_agent.indicators.indicator_reader import IndicatorReader
from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.orca_application import ApplicationLoadReport
from steelyard_agent.outputs.orca_file import OrcaFile
from steelyard_agent.outputs.orca_report import LoadReport
from steelyard_agent.pods import node_wiring
from steelyard_agent.pods.node_agent import NodeAgent
from steelyard_agent.pods.pod_list import UPSTREAM_LABEL
from steelyard_agent.pods.pod_poll import PodPoll
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.readers.scope import ScopeReader, make_reader
from steelyard_agent.record_stream import RecordStream
from steelyard_agent.registration.controller_client import ControllerClient
from steelyard_agent.registration.register_loop import RegisterLoop
from steelyard_agent.settings import Settings

if TYPE_CHECKING:
    from steelyard_agent.outputs.http_server import HttpServer, Respond
    from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer

log = logging.getLogger("steelyard_agent")


# The loop's agent: one server's, or that of a node's pods.
EitherAgent = Agent | NodeAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings, and their key and controller's token."""

    settings: Settings
    key: bytes | None = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """An agent and the parts that it works with."""

    loaded: LoadedSettings
    agent: EitherAgent
    pool: MemcachedWriter
    http_server: "HttpServer | None"
    indicators: IndicatorReader
    orca_grpc_server: "OrcaGrpcServer | None" = None
    orca_file: OrcaFile | None = None
    register_loop: RegisterLoop | None = None
    pod_poll: PodPoll | None = None


def reader(settings: Settings, *, extras: bool = False) -> ScopeReader:
    """Return the settings' reader; raise `SettingsError` if this platform has none."""
    assert settings.scope != "pods"  # noqa: S101 (many readers)
    target = Target(
        pid=settings.pid, pid_file=settings.pid_file, port=settings.listen_port, unit=settings.unit
    )
    try:
        return make_reader(
            settings.scope,
            target=target if settings.scope == "process" else None,
            count_io=settings.limits.io is not None,
            extras=extras,
        )
    except ValueError as error:
        raise SettingsError(str(error)) from None


def indicator_reader(settings: Settings) -> IndicatorReader:
    """Return the reader of the application's own indicators and rates, which has not begun yet."""
    return IndicatorReader((*settings.indicators, *settings.rates), fetch, time.monotonic)


def build(loaded: LoadedSettings, *, boot: str, old: Parts | None = None) -> Parts:
    """Return the settings' parts, not yet started; raise `SettingsError`.

    `boot` distinguishes the runs of this program; `old` are the running parts.
    """
    if loaded.settings.pods is not None:
        return _for_pods(loaded, loaded.settings.pods, old)
    return _for_server(loaded, boot, old)


def _for_server(loaded: LoadedSettings, boot: str, old: Parts | None) -> Parts:
    settings = loaded.settings
    scope_reader = reader(settings)
    before = None if old is None else old.http_server
    http_server = _http_server("orca", settings.orca_address, http_response.respond, before)
    try:
        orca_grpc_server = _orca_grpc_server(
            settings.orca_grpc, settings.interval_s, None if old is None else old.orca_grpc_server
        )
    except SettingsError:
        # Otherwise its port would stay in use.
        if http_server is not None and http_server is not before:
            http_server.close()
        raise
    orca_file = None if settings.orca_file is None else OrcaFile(settings.orca_file)
    application = (
        None if settings.orca_app is None else ApplicationLoadReport(settings.orca_app, time.monotonic)
    )
    pool = _pool(settings)
    indicators = indicator_reader(settings)
    register, register_loop = settings.register, None
    if register is not None:
        client = ControllerClient(loaded.token)
        register_loop = RegisterLoop(register.wanted, register.urls, client, random=random.random)
    stream = RecordStream(
        upstream=settings.upstream,
        peer=settings.peer,
        scope=scope_reader.scope,
        boot=boot,
        wall_clock=time.time,
        seq=old.agent.seq if old is not None and isinstance(old.agent, Agent) else 0,
        key=loaded.key,
    )
    agent = Agent(
        Sampler(scope_reader.read, settings.limits, indicators.evidence),
        stream,
        pool,
        interval_s=settings.interval_s,
        stale_s=memcached_writer.ttl_s(settings.interval_s),
        clock=time.monotonic,
        show=[output.show for output in (http_server, orca_grpc_server, orca_file) if output is not None],
        registered=lambda: None if register_loop is None else register_loop.registered,
        application=lambda: _application_load(application, indicators),
    )
    _announce(loaded, f"{stream.name} (scope {scope_reader.scope})")
    return Parts(
        loaded=loaded,
        agent=agent,
        indicators=indicators,
        pool=pool,
        http_server=http_server,
        orca_grpc_server=orca_grpc_server,
        orca_file=orca_file,
        register_loop=register_loop,
    )


def _application_load(application: ApplicationLoadReport | None, indicators: IndicatorReader) -> LoadReport:
    """Return the application's own load report, and its rates: a measured rate is stronger."""
    said = {} if application is None else application.read()
    return {**said, **{one.indicator: one.value for one in indicators.rates() if one.value is not None}}


def _for_pods(loaded: LoadedSettings, pods: PodsSettings, old: Parts | None) -> Parts:
    settings = loaded.settings
    if not psutil.LINUX:
        raise SettingsError("--scope pods needs Linux")
    http_server = _http_server(
        "metrics", pods.metrics, http_response.respond_of_node, None if old is None else old.http_server
    )
    # The known pods are kept while the API server is unreachable.
    known = old.pod_poll if old is not None and old.loaded.settings.pods == pods else None
    poll = known or node_wiring.pod_poll(pods)
    pool = _pool(settings)
    agent = node_wiring.node_agent(
        pods.node,
        poll,
        pool,
        limits=settings.limits,
        interval_s=settings.interval_s,
        key=loaded.key,
        show=[] if http_server is None else [http_server.show],
    )
    _announce(loaded, f"the pods of node {pods.node} with the label {UPSTREAM_LABEL}")
    return Parts(
        loaded=loaded,
        agent=agent,
        pool=pool,
        http_server=http_server,
        indicators=indicator_reader(settings),
        pod_poll=poll,
    )


def _http_server(
    flag: str, address: Address | None, respond: "Respond", before: "HttpServer | None"
) -> "HttpServer | None":
    """Return the server at a flag's address, if it is given: `before` if that serves it already."""
    if address is None:
        return None
    if before is not None and (before.address, before.respond) == (address, respond):
        return before
    # asyncio takes a megabyte: only an agent with such a server pays for it.
    from steelyard_agent.outputs.http_server import HttpServer

    try:
        return HttpServer(address, respond)
    except (OSError, UnicodeError) as error:
        # Python's own words end with "(while attempting to bind ...)".
        why = str(error.strerror if isinstance(error, OSError) else error).partition(" (")[0]
        raise SettingsError(f"--{flag}: {peer_address.join(*address)} cannot be listened on: {why}") from None


def _orca_grpc_server(
    address: Address | None, interval_s: float, before: "OrcaGrpcServer | None"
) -> "OrcaGrpcServer | None":
    """Return the stream to gRPC clients at the address of --orca-grpc, if any; as `_http_server`."""
    if address is None:
        return None
    if before is not None and before.address == address:
        return before
    try:
        # grpcio takes more memory than all else here: only an agent with this output pays for it.
        from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer
    except ImportError as error:
        raise SettingsError(
            f"--orca-grpc needs grpcio and protobuf (pip install 'steelyard-agent[grpc]'): {error}"
        ) from None
    try:
        return OrcaGrpcServer(address, interval_s)
    except OSError as error:
        raise SettingsError(
            f"--orca-grpc: {peer_address.join(*address)} cannot be listened on: {error}"
        ) from None


def _pool(settings: Settings) -> MemcachedWriter:
    put_s = memcached_writer.put_s(settings.interval_s, len(settings.memcached) or 1)
    ttl_s = memcached_writer.ttl_s(settings.interval_s)
    return MemcachedWriter(
        [
            MemcachedServer(MemcachedClient(address, timeout_s=put_s), ttl_s=ttl_s)
            for address in settings.memcached
        ]
    )


def _announce(loaded: LoadedSettings, what: str) -> None:
    settings = loaded.settings
    servers = ", ".join(peer_address.join(*address) for address in settings.memcached)
    signed = "unsigned" if loaded.key is None else "signed"
    where = f"to Memcached at {servers}, {signed}" if servers else "sent nowhere"
    log.info("sampling %s every %g s, %s", what, settings.interval_s, where)
    token_file = None if settings.register is None else settings.register.token_file
    for unsafe in secret_file.warnings([(settings.key_file, "key"), (token_file, "token")]):
        log.warning("%s", unsafe)
