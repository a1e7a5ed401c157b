"""Builds the agent's parts from its settings, and again when the settings change.

At a reload the HTTP server is kept if its address is the same, because a port can
have only one listener. All other parts are built anew, and the old ones are closed
once the new ones exist, so that a mistake in the settings leaves the old agent as it was.
"""

import logging
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil
from steelyard_protocol import memcached_writer, secret_file, setting_values
from steelyard_protocol.memcached_client import MemcachedClient
from steelyard_protocol.memcached_writer import MemcachedServer, MemcachedWriter
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError
from steelyard_protocol.setting_values import Address

from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.indicators.fetch import fetch
from steelyard_agent.indicators.indicator_reader import IndicatorReader
from steelyard_agent.outputs import http_response
from steelyard_agent.outputs.http_server import HttpServer, Respond
from steelyard_agent.outputs.orca_application import ApplicationReport
from steelyard_agent.outputs.orca_file import OrcaFile
from steelyard_agent.pods import wiring
from steelyard_agent.pods.node_agent import NodeAgent
from steelyard_agent.pods.pod_list import LABEL
from steelyard_agent.pods.pod_poll import PodPoll
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.readers.process_finder import Target
from steelyard_agent.readers.scope import ScopeReader, make_reader
from steelyard_agent.registration.controller_client import ControllerClient
from steelyard_agent.registration.register_loop import RegisterLoop
from steelyard_agent.registration.register_request import Registration
from steelyard_agent.settings import Settings

if TYPE_CHECKING:
    from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer

log = logging.getLogger("steelyard_agent")


# What the loop runs: one server's agent, or that of a node's pods.
Running = Agent | NodeAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """The settings, and the key and the controller's token that they name."""

    settings: Settings
    key: bytes | None = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    loaded: LoadedSettings
    agent: Running
    pool: MemcachedWriter
    http_server: HttpServer[Any] | None
    indicators: IndicatorReader
    orca_grpc_server: "OrcaGrpcServer | None" = None
    orca_file: OrcaFile | None = None
    register_loop: RegisterLoop | None = None
    pod_poll: PodPoll | None = None


# One DELETE at each controller; a service's manager kills after 10 s.
LONGEST_WITHDRAWAL_S = 6.0


def set_log_level(settings: Settings) -> None:
    """Log as much as the settings say; where one sample is printed, warnings only."""
    one = settings.once or settings.explain
    level = logging.DEBUG if settings.verbose else logging.WARNING if one else logging.INFO
    logging.getLogger().setLevel(level)


def reader(settings: Settings, *, extras: bool = False) -> ScopeReader:
    """Return the reader that the settings ask for; raise `SettingsError` where this platform has none."""
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
    """Return the reader of the application's own indicators, which has not begun yet."""
    return IndicatorReader(settings.indicators, fetch, time.monotonic)


class Service:
    """The running agent's parts; `load` reads the settings again, and raises `SettingsError`."""

    def __init__(self, load: Callable[[], LoadedSettings]) -> None:
        self._load = load
        self._boot = secrets.token_hex(8)
        self._parts: _Parts | None = None

    def start(self, loaded: LoadedSettings) -> Running:
        """Return the first agent; raise `SettingsError`."""
        self._parts = self._built(loaded, None)
        _start(self._parts, old=None)
        return self._parts.agent

    def reload(self, agent: Running) -> Running:
        """Return an agent of the settings as they are now; the old one where they are wrong or the same."""
        old = self._parts
        assert old is not None  # noqa: S101
        try:
            loaded = self._load()
            if loaded == old.loaded:
                log.info("the settings were read again: nothing has changed")
                if old.register_loop is not None:
                    old.register_loop.register_now()
                return agent
            new = self._built(loaded, old)
        except (SettingsError, SecretFileError) as error:
            log.error("the settings were read again and are not taken up: %s; the old ones stay", error)
            return agent
        was, now = old.loaded.settings, loaded.settings
        renamed = (was.upstream, was.peer, was.pods is None) != (now.upstream, now.peer, now.pods is None)
        if renamed:
            agent.leave()
        set_log_level(now)
        _close(old, keep=new)
        if old.register_loop is not None:
            old.register_loop.stop(withdraw=renamed and _deregisters(was))
        if new.orca_grpc_server is not None:
            new.orca_grpc_server.interval_s = now.interval_s
        _start(new, old=old)
        self._parts = new
        return new.agent

    def close(self) -> None:
        """Close connections, stop answering, remove what was shown, and take back what was declared."""
        if self._parts is not None:
            _close(self._parts, keep=None)
            register_loop = self._parts.register_loop
            if register_loop is not None:
                withdraw = _deregisters(self._parts.loaded.settings)
                register_loop.stop(withdraw=withdraw)
                if withdraw:
                    register_loop.join(LONGEST_WITHDRAWAL_S)

    def _built(self, loaded: LoadedSettings, old: _Parts | None) -> _Parts:
        settings = loaded.settings
        if settings.pods is not None:
            return _built_for_pods(loaded, settings.pods, old)
        scope_reader = reader(settings)
        http_server = _http_server("orca", settings.orca_address, http_response.respond, old)
        try:
            orca_grpc_server = _orca_grpc_server(settings, old)
        except SettingsError:
            # Nobody else would give its port back.
            if http_server is not None and (old is None or http_server is not old.http_server):
                http_server.close()
            raise
        orca_file = None if settings.orca_file is None else OrcaFile(settings.orca_file)
        application = (
            None if settings.orca_app is None else ApplicationReport(settings.orca_app, time.monotonic)
        )
        pool = _pool(settings)
        indicators = indicator_reader(settings)
        register_loop = _register_loop(loaded)
        agent = Agent(
            Sampler(scope_reader.read, settings.limits, indicators.evidence),
            pool,
            upstream=settings.upstream,
            peer=settings.peer,
            scope=scope_reader.scope,
            boot=self._boot,
            seq=old.agent.seq if old is not None and isinstance(old.agent, Agent) else 0,
            interval_s=settings.interval_s,
            stale_s=memcached_writer.ttl_s(settings.interval_s),
            wall_clock=time.time,
            clock=time.monotonic,
            key=loaded.key,
            outputs=[output for output in (http_server, orca_grpc_server, orca_file) if output is not None],
            registered=lambda: None if register_loop is None else register_loop.registered,
            application=dict if application is None else application.read,
        )
        _announce(loaded, f"{settings.upstream}/{settings.peer} (scope {scope_reader.scope})")
        return _Parts(
            loaded=loaded,
            agent=agent,
            indicators=indicators,
            pool=pool,
            http_server=http_server,
            orca_grpc_server=orca_grpc_server,
            orca_file=orca_file,
            register_loop=register_loop,
        )


def _built_for_pods(loaded: LoadedSettings, pods: PodsSettings, old: _Parts | None) -> _Parts:
    settings = loaded.settings
    if not psutil.LINUX:
        raise SettingsError("--scope pods reads what only Linux has")
    http_server = _http_server("metrics", pods.metrics, http_response.respond_of_node, old)
    # The pods that are known are kept while the API server is away.
    known = old.pod_poll if old is not None and old.loaded.settings.pods == pods else None
    poll = known or wiring.pod_poll(pods)
    pool = _pool(settings)
    agent = wiring.node_agent(
        pods.node,
        poll,
        pool,
        limits=settings.limits,
        interval_s=settings.interval_s,
        key=loaded.key,
        outputs=[] if http_server is None else [http_server],
    )
    _announce(loaded, f"the pods of node {pods.node} that have the label {LABEL}")
    return _Parts(
        loaded=loaded,
        agent=agent,
        pool=pool,
        http_server=http_server,
        indicators=indicator_reader(settings),
        pod_poll=poll,
    )


def _pool(settings: Settings) -> MemcachedWriter:
    put_s = memcached_writer.put_s(settings.interval_s, len(settings.memcached))
    return MemcachedWriter(
        [
            MemcachedServer(
                MemcachedClient(address, timeout_s=put_s),
                ttl_s=memcached_writer.ttl_s(settings.interval_s),
                clock=time.monotonic,
                random=random.random,
            )
            for address in settings.memcached
        ]
    )


def registration(settings: Settings) -> Registration | None:
    """Return the registration that the settings ask for; None without --register."""
    if settings.register is None:
        return None
    return Registration(
        upstream=settings.upstream,
        peer=settings.peer,
        address=settings.register.address,
        baseline=settings.register.baseline,
    )


def _register_loop(loaded: LoadedSettings) -> RegisterLoop | None:
    wanted, register = registration(loaded.settings), loaded.settings.register
    if wanted is None or register is None:
        return None
    return RegisterLoop(wanted, register.urls, ControllerClient(loaded.token), random=random.random)


def _deregisters(settings: Settings) -> bool:
    return settings.register is not None and settings.register.deregister


def _http_server(
    flag: str, address: Address | None, respond: Respond[Any], old: _Parts | None
) -> HttpServer[Any] | None:
    if address is None:
        return None
    before = None if old is None else old.http_server
    if before is not None and (before.address, before.respond) == (address, respond):
        return before
    try:
        return HttpServer(address, respond)
    except (OSError, UnicodeError) as error:
        # Python's own words end with "(while attempting to bind ...)".
        why = str(error.strerror if isinstance(error, OSError) else error).partition(" (")[0]
        raise SettingsError(
            f"--{flag}: {setting_values.shown(address)} cannot be listened on: {why}"
        ) from None


def _orca_grpc_server(settings: Settings, old: _Parts | None) -> "OrcaGrpcServer | None":
    address = settings.orca_grpc
    if address is None:
        return None
    if old is not None and old.orca_grpc_server is not None and old.loaded.settings.orca_grpc == address:
        return old.orca_grpc_server
    try:
        # grpcio takes more memory than all else here: only who wants it pays.
        from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer
    except ImportError as error:
        raise SettingsError(
            f"--orca-grpc needs grpcio and protobuf (pip install 'steelyard-agent[grpc]'): {error}"
        ) from None
    try:
        return OrcaGrpcServer(address, settings.interval_s)
    except OSError as error:
        raise SettingsError(
            f"--orca-grpc: {setting_values.shown(address)} cannot be listened on: {error}"
        ) from None


def _announce(loaded: LoadedSettings, what: str) -> None:
    settings = loaded.settings
    log.info(
        "sampling %s every %g s, to Memcached at %s, %s",
        what, settings.interval_s,
        ", ".join(setting_values.shown(address) for address in settings.memcached),
        "unsigned" if loaded.key is None else "signed",
    )  # fmt: skip
    token_file = None if settings.register is None else settings.register.token_file
    for unsafe in secret_file.warnings([(settings.key_file, "key"), (token_file, "token")]):
        log.warning("%s", unsafe)


def _start(new: _Parts, *, old: _Parts | None) -> None:
    new.indicators.start()
    if new.register_loop is not None:
        new.register_loop.start()
    if new.pod_poll is not None and (old is None or old.pod_poll is not new.pod_poll):
        new.pod_poll.start()


def _close(old: _Parts, *, keep: _Parts | None) -> None:
    old.pool.close()
    old.indicators.close()
    if old.http_server is not None and (keep is None or keep.http_server is not old.http_server):
        old.http_server.close()
    if old.pod_poll is not None and (keep is None or keep.pod_poll is not old.pod_poll):
        old.pod_poll.close()
    grpc_server = old.orca_grpc_server
    if grpc_server is not None and (keep is None or keep.orca_grpc_server is not grpc_server):
        grpc_server.close()
    if old.orca_file is not None and (
        keep is None or keep.loaded.settings.orca_file != old.loaded.settings.orca_file
    ):
        old.orca_file.close()
