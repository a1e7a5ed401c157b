"""Builds the agent from its settings, and again when they change. Nothing is decided here.

What holds something that only one can hold (a port) is kept over a reload
where its setting is the same; all else is made anew, and the old is closed
once the new is there, so that a mistake in the settings leaves the old agent as it was.
"""

import logging
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from steelyard_agent import flag_values, readers, secret_file, store
from steelyard_agent.agent import Agent, Sampler
from steelyard_agent.endpoint import Endpoint
from steelyard_agent.exchange import Exchange
from steelyard_agent.orca_file import OrcaFile
from steelyard_agent.pool import Pool
from steelyard_agent.readers import Made
from steelyard_agent.readings.target import Target
from steelyard_agent.registrar import Registrar
from steelyard_agent.registration import Registration
from steelyard_agent.secret_file import SecretFileError
from steelyard_agent.settings import Settings, SettingsError
from steelyard_agent.store import Store

log = logging.getLogger("steelyard_agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The settings, and the key and the controller's token that they name."""

    settings: Settings
    key: bytes | None = field(repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    chosen: Chosen
    agent: Agent
    pool: Pool
    endpoint: Endpoint | None
    orca_file: OrcaFile | None
    registrar: Registrar | None


# One DELETE at each controller; a service's manager kills after 10 s.
LONGEST_WITHDRAWAL_S = 6.0


def set_log_level(settings: Settings) -> None:
    """Log as much as the settings say; where one sample is printed, warnings only."""
    one = settings.once or settings.explain
    level = logging.DEBUG if settings.verbose else logging.WARNING if one else logging.INFO
    logging.getLogger().setLevel(level)


def reader(settings: Settings, *, extras: bool = False) -> Made:
    """Return the reader that the settings ask for."""
    target = Target(
        pid=settings.pid, pid_file=settings.pid_file, port=settings.listen_port, unit=settings.unit
    )
    return readers.make(
        settings.scope,
        target=target if settings.scope == "process" else None,
        count_io=settings.limits.io is not None,
        extras=extras,
    )


class Service:
    """The running agent's parts; `choose` reads the settings again, and raises `SettingsError`."""

    def __init__(self, choose: Callable[[], Chosen]) -> None:
        self._choose = choose
        self._boot = secrets.token_hex(8)
        self._parts: _Parts | None = None

    def start(self, chosen: Chosen) -> Agent:
        """Return the first agent; raise `SettingsError`."""
        self._parts = self._built(chosen, None)
        if self._parts.registrar is not None:
            self._parts.registrar.start()
        return self._parts.agent

    def reload(self, agent: Agent) -> Agent:
        """Return an agent of the settings as they are now; the old one where they are wrong or the same."""
        old = self._parts
        assert old is not None  # noqa: S101
        try:
            chosen = self._choose()
            if chosen == old.chosen:
                log.info("the settings were read again: nothing has changed")
                if old.registrar is not None:
                    old.registrar.again()
                return agent
            new = self._built(chosen, old)
        except (SettingsError, SecretFileError) as error:
            log.error("the settings were read again and are not taken up: %s; the old ones stay", error)
            return agent
        was, now = old.chosen.settings, chosen.settings
        renamed = (was.upstream, was.peer) != (now.upstream, now.peer)
        if renamed:
            agent.leave()
        set_log_level(now)
        _close(old, keep=new)
        if old.registrar is not None:
            old.registrar.stop(withdraw=renamed and _deregisters(was))
        if new.registrar is not None:
            new.registrar.start()
        self._parts = new
        return new.agent

    def close(self) -> None:
        """Close connections, stop answering, remove what was shown, and take back what was declared."""
        if self._parts is not None:
            _close(self._parts, keep=None)
            registrar = self._parts.registrar
            if registrar is not None:
                withdraw = _deregisters(self._parts.chosen.settings)
                registrar.stop(withdraw=withdraw)
                if withdraw:
                    registrar.join(LONGEST_WITHDRAWAL_S)

    def _built(self, chosen: Chosen, old: _Parts | None) -> _Parts:
        settings = chosen.settings
        made = reader(settings)
        endpoint = _endpoint(settings, old)
        orca_file = None if settings.orca_file is None else OrcaFile(settings.orca_file)
        pool = _pool(settings)
        registrar = _registrar(chosen)
        agent = Agent(
            Sampler(made.read, settings.limits),
            pool,
            upstream=settings.upstream,
            peer=settings.peer,
            scope=made.scope,
            boot=self._boot,
            seq=old.agent.seq if old is not None else 0,
            interval_s=settings.interval_s,
            stale_s=store.ttl_s(settings.interval_s),
            wall_clock=time.time,
            clock=time.monotonic,
            key=chosen.key,
            places=[place for place in (endpoint, orca_file) if place is not None],
            registered=lambda: None if registrar is None else registrar.registered,
        )
        _announce(chosen, made)
        return _Parts(
            chosen=chosen,
            agent=agent,
            pool=pool,
            endpoint=endpoint,
            orca_file=orca_file,
            registrar=registrar,
        )


def _pool(settings: Settings) -> Pool:
    return Pool(
        [
            Store(
                address,
                ttl_s=store.ttl_s(settings.interval_s),
                put_s=store.put_s(settings.interval_s, len(settings.memcached)),
                clock=time.monotonic,
                random=random.random,
            )
            for address in settings.memcached
        ]
    )


def registration(settings: Settings) -> Registration | None:
    """Return what controllers are told, if they are."""
    if settings.register is None:
        return None
    return Registration(
        upstream=settings.upstream,
        peer=settings.peer,
        address=settings.register.address,
        baseline=settings.register.baseline,
    )


def _registrar(chosen: Chosen) -> Registrar | None:
    wanted, registering = registration(chosen.settings), chosen.settings.register
    if wanted is None or registering is None:
        return None
    return Registrar(wanted, registering.urls, Exchange(chosen.token), random=random.random)


def _deregisters(settings: Settings) -> bool:
    return settings.register is not None and settings.register.deregister


def _endpoint(settings: Settings, old: _Parts | None) -> Endpoint | None:
    address = settings.orca_address
    if address is None:
        return None
    if old is not None and old.endpoint is not None and old.chosen.settings.orca_address == address:
        return old.endpoint
    try:
        return Endpoint(address)
    except (OSError, UnicodeError) as error:
        # Python's own words end with "(while attempting to bind ...)".
        why = str(error.strerror if isinstance(error, OSError) else error).partition(" (")[0]
        raise SettingsError(f"--orca: {flag_values.shown(address)} cannot be listened on: {why}") from None


def _announce(chosen: Chosen, made: Made) -> None:
    settings = chosen.settings
    log.info(
        "sampling %s/%s (scope %s) every %g s, to Memcached at %s, %s",
        settings.upstream, settings.peer, made.scope, settings.interval_s,
        ", ".join(flag_values.shown(address) for address in settings.memcached),
        "unsigned" if chosen.key is None else "signed",
    )  # fmt: skip
    token_file = None if settings.register is None else settings.register.token_file
    for path, what in ((settings.key_file, "key"), (token_file, "token")):
        unsafe = None if path is None else secret_file.warning(path, what)
        if unsafe is not None:
            log.warning("%s", unsafe)


def _close(old: _Parts, *, keep: _Parts | None) -> None:
    old.pool.close()
    if old.endpoint is not None and (keep is None or keep.endpoint is not old.endpoint):
        old.endpoint.close()
    if old.orca_file is not None and (
        keep is None or keep.chosen.settings.orca_file != old.chosen.settings.orca_file
    ):
        old.orca_file.close()
