"""The agent's settings: from flags, else the environment, else the TOML file, else defaults.

Pure: the command line, the environment and the means to read a file come in
as arguments; `__main__` builds the settings and passes them down.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import program_settings, setting_values, signature, wire
from steelyard_protocol.program_settings import Given, SettingsError, SettingsFile
from steelyard_protocol.setting_values import Address

from steelyard_agent import flags, scope_values, toml_file
from steelyard_agent.indicators import declared
from steelyard_agent.indicators.declared import Indicator
from steelyard_agent.outputs import orca_report
from steelyard_agent.pods import pods_flags
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.register_flags import Url
from steelyard_agent.registration.register_request import RegisterSettings, Registration
from steelyard_agent.sample import Indicators
from steelyard_agent.scope_values import Scope

INDICATOR = "indicator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The agent's settings. `limits` are given capacities, in place of measured ones.

    `indicators` and `rates` are the application's own, and come from the file. Without `memcached`
    samples are not sent.
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
    rates: tuple[Indicator, ...] = ()
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


def load(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    hostname: str,
    read: Callable[[Path], bytes],
) -> Settings:
    """Return the settings; raise `SettingsError` for wrong ones."""
    line = flags.FLAGS.parse(arguments)
    file = program_settings.read_file(
        flags.FLAGS,
        line,
        environment,
        read=read,
        parse=toml_file.parse,
        tables=(INDICATOR, *orca_report.RATES),
    )
    given = program_settings.collect(flags.FLAGS, line, environment, file)
    # A process on the command line replaces the one in the file.
    targets = given.strongest_of(flags.TARGETS)
    interval_s = given.value("interval", setting_values.number("seconds", 0.1, 60.0))
    scope = given.value("scope", scope_values.scope)
    key_file = given.optional("key-file", Path)
    orca_file, orca_address = given.optional("orca", scope_values.orca) or (None, None)
    upstream = given.value("upstream", setting_values.name)
    peer = given.optional("peer", setting_values.name) or hostname
    memcached = given.value("memcached", scope_values.memcached)
    limits = _limits(given)
    pid = given.optional("pid", scope_values.pid)
    listen_port = given.optional("listen-port", setting_values.port)
    unit = given.optional("unit", scope_values.unit)
    orca_grpc = given.optional("orca-grpc", scope_values.orca_grpc)
    verbose, deregister = given.switch("verbose"), given.switch("deregister")
    node = given.optional("node", pods_flags.node)
    metrics = given.optional("metrics", pods_flags.metrics)
    urls = given.optional("register", register_flags.urls)
    address = given.optional("address", register_flags.service_address)
    baseline = given.optional("baseline", setting_values.number("a weight, such as 1,", 1e-6, 1e6))
    given.raise_mistakes()
    pods = None
    if scope == "pods":
        pods = _pods_settings(given, environment, node, metrics)
    else:
        _refuse(given, pods_flags.OF_PODS, "is for the pods of a node: add --scope pods")
    register = None
    if urls is not None:
        wanted = _registration(upstream, peer, address, baseline)
        register = _register_settings(given, environment, urls, wanted, deregister=deregister)
    else:
        needing = [flag for flag in flags.REGISTERING if flag != "deregister" or deregister]
        _refuse(given, needing, "is for a server that registers itself: add --register URL")
    indicators, rates = ((), ()) if file is None else _of_application(file, interval_s)
    settings = Settings(
        upstream=upstream,
        peer=peer,
        memcached=memcached,
        interval_s=interval_s,
        scope=scope,
        limits=limits,
        indicators=indicators,
        rates=rates,
        pid=pid,
        pid_file=given.optional("pid-file", Path),
        listen_port=listen_port,
        unit=unit,
        pods=pods,
        orca_file=orca_file,
        orca_address=orca_address,
        orca_grpc=orca_grpc,
        orca_app=given.optional("orca-app", Path),
        register=register,
        once=given.switch("once"),
        explain=given.switch("explain"),
        verbose=verbose,
        key=flags.FLAGS.secret("key", environment, signature.key_of_variable, file=key_file),
        key_file=key_file,
    )
    return _checked(settings, targets)


def _limits(given: Given) -> Indicators:
    number = setting_values.number
    return Indicators(
        cpu=given.optional("cpu-limit", number("cores, such as 0.5,", 0.001, 1e5)),
        mem=given.optional("mem-limit", number("bytes, such as 2147483648,", 1.0, 1e15)),
        net=given.optional("net-capacity", number("bytes/s, such as 125000000 for 1 Gbit/s,", 1.0, 1e15)),
        io=given.optional("io-capacity", number("operations/s", 1.0, 1e15)),
    )


def _refuse(given: Given, flags_: Iterable[str], reason: str) -> None:
    useless = next((flag for flag in flags_ if flag in given), None)
    if useless is not None:
        raise SettingsError(f"--{useless} {reason}")


def _pods_settings(
    given: Given, environment: Mapping[str, str], node: str | None, metrics: Address | None
) -> PodsSettings:
    refusal = pods_flags.refusal(given)
    if refusal is not None:
        raise SettingsError(refusal)
    if node is None:
        raise SettingsError("--scope pods needs --node NAME (in a pod from the downward API: spec.nodeName)")
    try:
        api_server = pods_flags.api_server(environment)
    except ValueError as error:
        raise SettingsError(f"--scope pods asks the API server of Kubernetes: {error}") from None
    service_account = given.value("service-account", Path)
    return PodsSettings(node=node, api_server=api_server, service_account=service_account, metrics=metrics)


def _registration(upstream: str, peer: str, address: Address | None, baseline: float | None) -> Registration:
    if address is None:
        raise SettingsError(
            "--register needs --address: auto:PORT, or HOST:PORT as nginx reaches this server"
        )
    return Registration(upstream=upstream, peer=peer, address=address, baseline=baseline)


def _register_settings(
    given: Given,
    environment: Mapping[str, str],
    urls: tuple[Url, ...],
    wanted: Registration,
    *,
    deregister: bool,
) -> RegisterSettings:
    token_file = given.optional("token-file", Path)
    return RegisterSettings(
        urls=urls,
        wanted=wanted,
        token=_token(environment, token_file),
        token_file=token_file,
        deregister=deregister,
    )


def _of_application(
    file: SettingsFile, interval_s: float
) -> tuple[tuple[Indicator, ...], tuple[Indicator, ...]]:
    rates = {name: table for name, table in file.tables.items() if name != INDICATOR}
    try:
        indicators = declared.parse(file.tables.get(INDICATOR, []), interval_s=interval_s)
        return indicators, declared.parse_rates(rates, interval_s=interval_s)
    except ValueError as error:
        raise SettingsError(f"{file.path}: {error}") from None


def _token(environment: Mapping[str, str], file: Path | None) -> str | None:
    def parse(text: str) -> str:
        return register_flags.token(text.encode("utf-8", "surrogateescape"))

    # Unlike an empty key an empty token is safe: the controller refuses an agent without one.
    return flags.FLAGS.secret("token", environment, parse, file=file, empty_is_none=True)


def _checked(settings: Settings, named: Sequence[str]) -> Settings:
    ways = "--pid N, --pid-file FILE, --listen-port PORT or --unit NAME"
    rate = f"[{settings.rates[0].name}]" if settings.rates else ""
    own = "[[indicator]]" if settings.indicators else rate
    if settings.pods is not None and own:
        raise SettingsError(
            f"{own} is an application's own, not for --scope pods: have an agent beside it (a sidecar)"
        )
    shown = settings.orca_file or settings.orca_address or settings.orca_grpc
    if not shown and rate:
        raise SettingsError(f"{rate} is for load reports (ORCA): add --orca-grpc or --orca")
    if not shown and not settings.memcached:
        raise SettingsError("--memcached none sends no sample anywhere: add --orca-grpc or --orca")
    if settings.pods is None and not wire.is_name(settings.peer):
        raise SettingsError(
            f"--peer: the host name {settings.peer!r} cannot be a peer's name: give --peer NAME"
        )
    if settings.scope != "process" and named:
        raise SettingsError(f"--{named[0]} is for one process: add --scope process")
    if settings.scope == "process" and not named:
        raise SettingsError(f"--scope process needs {ways}")
    if len(named) > 1:
        raise SettingsError(f"--{' and --'.join(named)} both name a process: give one")
    return settings
