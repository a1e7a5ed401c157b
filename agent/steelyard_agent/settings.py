"""The agent's settings: from flags, else the environment, else the TOML file, else defaults.

Pure: the command line, the environment and the means to read a file come in
as arguments; `__main__` builds the settings and passes them down.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import program_settings, setting_values, signature, wire
from steelyard_protocol.program_settings import Given, SettingsError
from steelyard_protocol.setting_values import Address

from steelyard_agent import flags, scope_values, toml_file
from steelyard_agent.indicators import declared
from steelyard_agent.indicators.declared import Indicator
from steelyard_agent.outputs import orca_report
from steelyard_agent.pods import pods_flags
from steelyard_agent.pods.pods_flags import PodsSettings
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.register_request import RegisterSettings, Registration
from steelyard_agent.sample import Indicators
from steelyard_agent.scope_values import Scope
from steelyard_agent.toml_file import Document

INDICATOR = "indicator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The agent's settings. `limits` are the capacities that were given instead of measured.

    `indicators` and `rates` are the application's own, which only the file can declare. Without `memcached`
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
    """Return the settings; raise `SettingsError` for the first wrong one."""
    line = flags.FLAGS.parse(arguments)
    file = _file(line, environment, read)
    # A process that is named on the command line replaces the one in the file.
    given = program_settings.collect(
        flags.FLAGS, line, environment, {} if file is None else file.texts
    ).strongest_of(flags.TARGETS)
    interval_s = given.value("interval", 1.0, setting_values.number("seconds", 0.1, 60.0))
    automatic: Scope = "auto"
    chosen = given.value("scope", automatic, scope_values.scope)
    pods = _pods_settings(chosen, given, environment)
    nowhere: tuple[Path | None, Address | None] = (None, None)
    key_file = given.value("key-file", None, Path)
    orca_file, orca_address = given.value("orca", nowhere, scope_values.orca)
    indicators, rates = ((), ()) if file is None else _of_application(file, interval_s)
    upstream = given.value("upstream", "web", setting_values.name)
    peer = given.value("peer", hostname, setting_values.name)
    settings = Settings(
        upstream=upstream,
        peer=peer,
        memcached=given.value("memcached", setting_values.LOCAL_MEMCACHED, scope_values.memcached),
        interval_s=interval_s,
        scope=chosen,
        limits=_limits(given),
        indicators=indicators,
        rates=rates,
        pid=given.value("pid", None, scope_values.pid),
        pid_file=given.value("pid-file", None, Path),
        listen_port=given.value("listen-port", None, setting_values.port),
        unit=given.value("unit", None, scope_values.unit),
        pods=pods,
        orca_file=orca_file,
        orca_address=orca_address,
        orca_grpc=given.value("orca-grpc", None, scope_values.orca_grpc),
        orca_app=given.value("orca-app", None, Path),
        register=_register_settings(given, environment, upstream, peer),
        once=given.value("once", False, setting_values.switch),
        explain=given.value("explain", False, setting_values.switch),
        verbose=given.value("verbose", False, setting_values.switch),
        key=flags.FLAGS.secret("key", environment, signature.key_of_variable, file=key_file),
        key_file=key_file,
    )
    return _checked(settings, [flag for flag in flags.TARGETS if flag in given])


def _limits(given: Given) -> Indicators:
    number = setting_values.number
    return Indicators(
        cpu=given.value("cpu-limit", None, number("cores, such as 0.5,", 0.001, 1e5)),
        mem=given.value("mem-limit", None, number("bytes, such as 2147483648,", 1.0, 1e15)),
        net=given.value("net-capacity", None, number("bytes/s, such as 125000000 for 1 Gbit/s,", 1.0, 1e15)),
        io=given.value("io-capacity", None, number("operations/s", 1.0, 1e15)),
    )


def _pods_settings(chosen: Scope, given: Given, environment: Mapping[str, str]) -> PodsSettings | None:
    if chosen != "pods":
        alone = next((flag for flag in pods_flags.OF_PODS if flag in given), None)
        if alone is not None:
            raise SettingsError(f"--{alone} is for the pods of a node: add --scope pods")
        return None
    refusal = pods_flags.refusal(given)
    if refusal is not None:
        raise SettingsError(refusal)
    node = given.value("node", None, pods_flags.node)
    if node is None:
        raise SettingsError("--scope pods needs --node NAME (in a pod from the downward API: spec.nodeName)")
    try:
        api_server = pods_flags.api_server(environment)
    except ValueError as error:
        raise SettingsError(f"--scope pods asks the API server of Kubernetes: {error}") from None
    return PodsSettings(
        node=node,
        api_server=api_server,
        service_account=given.value("service-account", pods_flags.SERVICE_ACCOUNT, Path),
        metrics=given.value("metrics", None, pods_flags.metrics),
    )


def _register_settings(
    given: Given, environment: Mapping[str, str], upstream: str, peer: str
) -> RegisterSettings | None:
    urls = given.value("register", (), register_flags.urls)
    deregister = given.value("deregister", False, setting_values.switch)
    needless = [flag for flag in flags.REGISTERING if flag in given and (flag != "deregister" or deregister)]
    if not urls:
        if needless:
            raise SettingsError(f"--{needless[0]} is for a server that registers itself: add --register URL")
        return None
    address = given.value("address", None, register_flags.service_address)
    if address is None:
        raise SettingsError(
            "--register needs --address: auto:PORT, or HOST:PORT as nginx reaches this server"
        )
    token_file = given.value("token-file", None, Path)
    baseline = given.value("baseline", None, setting_values.number("a weight, such as 1,", 1e-6, 1e6))
    return RegisterSettings(
        urls=urls,
        wanted=Registration(upstream=upstream, peer=peer, address=address, baseline=baseline),
        token=_token(environment, token_file),
        token_file=token_file,
        deregister=deregister,
    )


def _file(
    line: Mapping[str, str | None], environment: Mapping[str, str], read: Callable[[Path], bytes]
) -> Document | None:
    named = line["config"] or environment.get(flags.FLAGS.variable("config"))
    if not named:
        return None
    path = Path(named)
    try:
        text = read(path)
    except (OSError, ValueError) as error:  # the latter for a name with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"--config: {path} cannot be read: {why}") from None
    try:
        return toml_file.parse(path, text, flags.names(), (INDICATOR, *orca_report.RATES))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None


def _of_application(file: Document, interval_s: float) -> tuple[tuple[Indicator, ...], tuple[Indicator, ...]]:
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
