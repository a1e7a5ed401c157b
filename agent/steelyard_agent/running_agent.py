"""The running agent: started, replaced when its settings are read again, closed.

At a reload the old parts are closed once the new ones exist, so that a mistake in the settings leaves the
old agent as it was.
"""

import logging
import secrets
from collections.abc import Callable

from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError

from steelyard_agent import wiring
from steelyard_agent.settings import Settings
from steelyard_agent.wiring import EitherAgent, LoadedSettings, Parts

log = logging.getLogger("steelyard_agent")

# One DELETE at each controller; a service's manager kills after 10 s.
LONGEST_WITHDRAWAL_S = 6.0


def set_log_level(settings: Settings) -> None:
    """Set the log level of the settings; with one printed sample, warnings only."""
    one = settings.once or settings.explain
    level = logging.DEBUG if settings.verbose else logging.WARNING if one else logging.INFO
    logging.getLogger().setLevel(level)


class RunningAgent:
    """The running parts; `load` reads the settings again, and raises `SettingsError`."""

    def __init__(self, load: Callable[[], LoadedSettings]) -> None:
        self._load = load
        self._boot = secrets.token_hex(8)
        self._parts: Parts | None = None

    def start(self, loaded: LoadedSettings) -> EitherAgent:
        """Return the first agent; raise `SettingsError`."""
        self._parts = wiring.build(loaded, boot=self._boot)
        _start(self._parts, old=None)
        return self._parts.agent

    def reload(self, agent: EitherAgent) -> EitherAgent:
        """Return an agent of the present settings; the old one if they are wrong or unchanged."""
        old = self._parts
        assert old is not None  # noqa: S101
        try:
            loaded = self._load()
            if loaded == old.loaded:
                log.info("the settings were read again: nothing has changed")
                if old.register_loop is not None:
                    old.register_loop.register_now()
                return agent
            new = wiring.build(loaded, boot=self._boot, old=old)
        except (SettingsError, SecretFileError) as error:
            mistakes = "; ".join(str(error).splitlines())
            log.error("the reloaded settings are wrong, and the previous ones stay: %s", mistakes)
            return agent
        before, now = old.loaded.settings, loaded.settings
        renamed = _identity(before) != _identity(now)
        if renamed:
            agent.leave()
        set_log_level(now)
        _close(old, keep=new)
        if old.register_loop is not None:
            old.register_loop.stop(withdraw=renamed and _deregisters(before))
        if new.orca_grpc_server is not None:
            new.orca_grpc_server.interval_s = now.interval_s
        _start(new, old=old)
        self._parts = new
        return new.agent

    def close(self) -> None:
        """Close connections and outputs, and deregister if asked to."""
        if self._parts is not None:
            _close(self._parts, keep=None)
            register_loop = self._parts.register_loop
            if register_loop is not None:
                withdraw = _deregisters(self._parts.loaded.settings)
                register_loop.stop(withdraw=withdraw)
                if withdraw:
                    register_loop.join(LONGEST_WITHDRAWAL_S)


def _identity(settings: Settings) -> tuple[str, str, bool]:
    return settings.upstream, settings.peer, settings.pods is None


def _deregisters(settings: Settings) -> bool:
    return settings.register is not None and settings.register.deregister


def _start(new: Parts, *, old: Parts | None) -> None:
    new.indicators.start()
    if new.register_loop is not None:
        new.register_loop.start()
    if new.pod_poll is not None and (old is None or old.pod_poll is not new.pod_poll):
        new.pod_poll.start()


def _close(old: Parts, *, keep: Parts | None) -> None:
    old.pool.close()
    old.indicators.close()
    kept = () if keep is None else (keep.http_server, keep.orca_grpc_server, keep.pod_poll)
    for part in (old.http_server, old.orca_grpc_server, old.pod_poll):
        if part is not None and part not in kept:
            part.close()
    if old.orca_file is not None and (
        keep is None or keep.loaded.settings.orca_file != old.loaded.settings.orca_file
    ):
        old.orca_file.close()
