"""The agent's settings: from flags, else the environment, else the TOML file, else defaults.

Pure: the command line, the environment and the means to read a file come in
as arguments; `__main__` builds the settings and passes them down.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from steelyard_protocol import setting_values, signature, wire
from steelyard_protocol.setting_values import Address

from steelyard_agent import flags, scope_values, toml_file
from steelyard_agent.indicators import declared
from steelyard_agent.indicators.declared import DeclarationError, Indicator
from steelyard_agent.pods import pods_flags
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.register_flags import RegisterSettings
from steelyard_agent.sample import Indicators
from steelyard_agent.scope_values import Scope
from steelyard_agent.toml_file import Document

T = TypeVar("T")
U = TypeVar("U")

# Not flags: every user of the machine can read a command line.
KEY_VARIABLE = "STEELYARD_AGENT_KEY"
TOKEN_VARIABLE = "STEELYARD_AGENT_TOKEN"  # noqa: S105 (its name)


class SettingsError(Exception):
    """A setting is wrong; the message is one line that names it and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The agent's settings. `limits` are the capacities that were given instead of measured.

    `indicators` are the application's own, which only the file can declare.
    The shared key is `key`, or in `key_file`, or there is none. At most one of
    `pid`, `pid_file`, `listen_port` and `unit` is set, and in the process scope exactly one.
    `pods` is set in the pods scope and there alone; upstream and peer then mean nothing.
    """

    upstream: str
    peer: str
    memcached: tuple[Address, ...]
    interval_s: float
    scope: Scope
    limits: Indicators
    indicators: tuple[Indicator, ...] = ()
    pid: int | None = None
    pid_file: Path | None = None
    listen_port: int | None = None
    unit: str | None = None
    pods: PodsSettings | None = None
    orca_file: Path | None = None
    orca_address: Address | None = None
    orca_grpc: Address | None = None
    orca_app: Path | None = None
    register: RegisterSettings | None = None
    once: bool = False
    explain: bool = False
    verbose: bool = False
    key: bytes | None = field(default=None, repr=False)
    key_file: Path | None = None


class _Value(Protocol):
    """Gives a setting: what `parse` makes of its text, or the default where it was not given."""

    def __call__(self, flag: str, default: T, parse: Callable[[str], U]) -> T | U: ...


@dataclass(frozen=True, slots=True)
class _Given:
    """A setting's text; where it was given, for a person; and how strong that place is."""

    text: str
    place: str
    strength: int


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    document: Document


def load(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    hostname: str,
    read: Callable[[Path], bytes],
) -> Settings:
    """Return the settings; raise `SettingsError` for the first wrong one."""
    try:
        line = flags.parse(arguments)
        file = _file(line, environment, read)
        given = _collected(line, environment, file)
    except flags.FlagError as error:
        raise SettingsError(str(error)) from None

    def value(flag: str, default: T, parse: Callable[[str], U]) -> T | U:
        found = given.get(flag)
        if found is None:
            return default
        try:
            return parse(found.text)
        except ValueError as error:
            raise SettingsError(f"{found.place} is {_shown(found.text)!r}: {error}") from None

    interval_s = value("interval", 1.0, setting_values.number("seconds", 0.1, 60.0))
    automatic: Scope = "auto"
    chosen = value("scope", automatic, scope_values.scope)
    pods = _pods_settings(chosen, value, given, environment)
    nowhere: tuple[Path | None, Address | None] = (None, None)
    orca_file, orca_address = value("orca", nowhere, scope_values.orca)
    settings = Settings(
        upstream=value("upstream", "web", setting_values.name),
        peer=value("peer", hostname, setting_values.name),
        memcached=value("memcached", (("127.0.0.1", setting_values.MEMCACHED_PORT),), setting_values.servers),
        interval_s=interval_s,
        scope=chosen,
        limits=_limits(value),
        indicators=() if file is None else _indicators(file, interval_s),
        pid=value("pid", None, scope_values.pid),
        pid_file=value("pid-file", None, Path),
        listen_port=value("listen-port", None, setting_values.port),
        unit=value("unit", None, scope_values.unit),
        pods=pods,
        orca_file=orca_file,
        orca_address=orca_address,
        orca_grpc=value("orca-grpc", None, scope_values.orca_grpc),
        orca_app=value("orca-app", None, Path),
        register=_register_settings(
            value, [flag for flag in flags.REGISTERING if flag in given], environment
        ),
        once=value("once", False, setting_values.switch),
        explain=value("explain", False, setting_values.switch),
        verbose=value("verbose", False, setting_values.switch),
        key=_key(environment),
        key_file=value("key-file", None, Path),
    )
    return _checked(settings, [flag for flag in flags.TARGETS if flag in given])


def _limits(value: _Value) -> Indicators:
    number = setting_values.number
    return Indicators(
        cpu=value("cpu-limit", None, number("cores, such as 0.5,", 0.001, 1e5)),
        mem=value("mem-limit", None, number("bytes, such as 2147483648,", 1.0, 1e15)),
        net=value("net-capacity", None, number("bytes/s, such as 125000000 for 1 Gbit/s,", 1.0, 1e15)),
        io=value("io-capacity", None, number("operations/s", 1.0, 1e15)),
    )


def _pods_settings(
    chosen: Scope, value: _Value, given: Collection[str], environment: Mapping[str, str]
) -> PodsSettings | None:
    if chosen != "pods":
        alone = next((flag for flag in pods_flags.OF_PODS if flag in given), None)
        if alone is not None:
            raise SettingsError(f"--{alone} is for the pods of a node: add --scope pods")
        return None
    refusal = pods_flags.refusal(given)
    if refusal is not None:
        raise SettingsError(refusal)
    node = value("node", None, pods_flags.node)
    if node is None:
        raise SettingsError("--scope pods needs --node NAME (in a pod from the downward API: spec.nodeName)")
    try:
        api_server = pods_flags.api_server(environment)
    except ValueError as error:
        raise SettingsError(f"--scope pods asks the API server of Kubernetes: {error}") from None
    return PodsSettings(
        node=node,
        api_server=api_server,
        service_account=value("service-account", pods_flags.SERVICE_ACCOUNT, Path),
        metrics=value("metrics", None, pods_flags.metrics),
    )


def _register_settings(
    value: _Value, named: Sequence[str], environment: Mapping[str, str]
) -> RegisterSettings | None:
    urls = value("register", (), register_flags.urls)
    deregister = value("deregister", False, setting_values.switch)
    needless = [flag for flag in named if flag != "deregister" or deregister]
    if not urls:
        if needless:
            raise SettingsError(f"--{needless[0]} is for a server that registers itself: add --register URL")
        return None
    address = value("address", None, register_flags.service_address)
    if address is None:
        raise SettingsError(
            "--register needs --address: auto:PORT, or HOST:PORT as nginx reaches this server"
        )
    token, token_file = _token(environment), value("token-file", None, Path)
    if token is not None and token_file is not None:
        raise SettingsError(
            f"{TOKEN_VARIABLE} and --token-file ({TOKEN_VARIABLE}_FILE) are both set: leave one out"
        )
    return RegisterSettings(
        urls=urls,
        address=address,
        baseline=value("baseline", None, setting_values.number("a weight, such as 1,", 1e-6, 1e6)),
        token=token,
        token_file=token_file,
        deregister=deregister,
    )


def _collected(
    line: Mapping[str, str | None], environment: Mapping[str, str], file: _File | None
) -> dict[str, _Given]:
    """Return what was given for each flag, in the strongest place that gave it."""
    given: dict[str, _Given] = {}
    if file is not None:
        for flag, found in file.document.texts.items():
            given[flag] = _Given(found, f"{flag.replace('-', '_')} in {file.path}", 0)
    for flag, text in line.items():
        # An empty variable is one that is not set: that is how compose files leave one out.
        variable = environment.get(_variable(flag))
        if text is not None:
            given[flag] = _Given(text, f"--{flag}", 2)
        elif variable:
            given[flag] = _Given(variable, f"{_variable(flag)} (--{flag})", 1)
    # A process that is named on the command line replaces the one in the file.
    targets = [given[flag].strength for flag in flags.TARGETS if flag in given]
    return {
        flag: setting
        for flag, setting in given.items()
        if flag not in flags.TARGETS or setting.strength == max(targets)
    }


def _file(
    line: Mapping[str, str | None], environment: Mapping[str, str], read: Callable[[Path], bytes]
) -> _File | None:
    named = line["config"] or environment.get(_variable("config"))
    if not named:
        return None
    path = Path(named)
    try:
        return _File(path, toml_file.parse(read(path), flags.names()))
    except (OSError, ValueError) as error:  # the latter for a name with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"--config: {path} cannot be read: {why}") from None
    except toml_file.TomlError as error:
        raise SettingsError(f"{path}: {error}") from None


def _indicators(file: _File, interval_s: float) -> tuple[Indicator, ...]:
    try:
        return declared.parse(file.document.indicators, interval_s=interval_s)
    except DeclarationError as error:
        raise SettingsError(f"{file.path}: {error}") from None


def _key(environment: Mapping[str, str]) -> bytes | None:
    if KEY_VARIABLE not in environment:
        return None
    try:
        return signature.key_of_variable(environment[KEY_VARIABLE])
    except ValueError as error:
        raise SettingsError(f"{KEY_VARIABLE}: {error}") from None


def _token(environment: Mapping[str, str]) -> str | None:
    # Unlike an empty key an empty token is safe: the controller refuses an agent without one.
    if not environment.get(TOKEN_VARIABLE):
        return None
    try:
        return register_flags.token(environment[TOKEN_VARIABLE].encode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise SettingsError(f"{TOKEN_VARIABLE}: {error}") from None


def _checked(settings: Settings, named: Sequence[str]) -> Settings:
    ways = "--pid N, --pid-file FILE, --listen-port PORT or --unit NAME"
    if settings.pods is not None and settings.indicators:
        raise SettingsError(
            "[[indicator]] is an application's own, not for --scope pods: have an agent beside it (a sidecar)"
        )
    if settings.pods is None and not wire.is_name(settings.peer):
        raise SettingsError(
            f"--peer: the host name {settings.peer!r} cannot be a peer's name: give --peer NAME"
        )
    if settings.key is not None and settings.key_file is not None:
        raise SettingsError(
            f"{KEY_VARIABLE} and --key-file ({KEY_VARIABLE}_FILE) are both set: leave one out"
        )
    if settings.scope != "process" and named:
        raise SettingsError(f"--{named[0]} is for one process: add --scope process")
    if settings.scope == "process" and not named:
        raise SettingsError(f"--scope process needs {ways}")
    if len(named) > 1:
        raise SettingsError(f"--{' and --'.join(named)} both name a process: give one")
    return settings


def _shown(text: str) -> str:
    # A URL may hold a password.
    return re.sub(r"//[^/]*@", "//…@", text)


def _variable(flag: str) -> str:
    # Shared with everything else that is told where Memcached is.
    return (
        "STEELYARD_MEMCACHED" if flag == "memcached" else f"STEELYARD_AGENT_{flag.upper().replace('-', '_')}"
    )
