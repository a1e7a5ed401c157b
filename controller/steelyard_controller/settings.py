"""The controller's settings: flags, else the environment, else the YAML file, else defaults.

`load` builds them once, in `__main__`, and they are passed down. `declarations` checks the upstreams in
the file.
"""

import contextlib
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from steelyard_protocol import program_settings, setting_values, signature, wire
from steelyard_protocol.program_settings import Given, ParsedFile, SettingsError, SettingsFile

from steelyard_controller import json_text, yaml_text
from steelyard_controller.declarations.upstream import Name, Upstream
from steelyard_controller.declarations.validation_messages import message
from steelyard_controller.flags import FLAGS, TABLES
from steelyard_controller.messages.keyring import DerivedKeys
from steelyard_controller.store import redis_url

T = TypeVar("T")

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]

_ID = re.compile(r"[A-Za-z0-9._-]{0,64}")

# A DNS label, RFC 1123.
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

# An upstream's name, or a pattern of such names.
_CLAIM = r"^[A-Za-z0-9*][A-Za-z0-9._*-]{0,63}$"

# A password in a URL's user part or in its query. Not parsed: process lists show malformed URLs too.
_PASSWORD = re.compile(r"(rediss?|unix|sentinel|cluster)://(.*[?&](sentinel_)?password=|[^/@]*:[^@]*@)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The controller's settings; `flags` describes each.

    A secret is in its own field, or in the file that its `_file` names, or there is none. `kubernetes_claims`
    has by namespace the upstreams that its Services may claim; None lets each claim any.
    """

    api_host: str
    api_port: int
    memcached: str
    state_url: str
    installation: str
    id: str
    advertise_url: str
    lease_s: float
    wait_replicas: int
    history_s: float
    agent_check_host: str
    agent_check_port: int | None
    xds_host: str
    xds_port: int | None
    xds_cert_file: Path | None
    xds_cert_key_file: Path | None
    xds_client_ca_file: Path | None
    admin_token_file: Path | None
    agent_token_file: Path | None
    read_token_file: Path | None
    tokens_file: Path | None
    max_body_bytes: int
    metrics_servers: int
    tick_s: float
    log_level: LogLevel
    log_format: LogFormat
    key_file: Path | None
    derived_keys: DerivedKeys
    state_password_file: Path | None
    sentinel_password_file: Path | None
    load_balancers: tuple[str, ...]
    kubernetes: str
    kubernetes_claims: Mapping[str, Sequence[str]] | None
    upstreams: Mapping[str, Upstream]
    key: bytes | None = field(repr=False)
    admin_token: str | None = field(repr=False)
    agent_token: str | None = field(repr=False)
    read_token: str | None = field(repr=False)
    state_password: str | None = field(repr=False)
    sentinel_password: str | None = field(repr=False)

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that are watched; empty for all."""
        return tuple(self.kubernetes.split(",")) if self.kubernetes not in {"", "all"} else ()


def load(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    read: Callable[[Path], bytes] = Path.read_bytes,
) -> Settings:
    """Return the settings; raise `SettingsError` that names the wrong ones."""
    if any(map(_PASSWORD.search, arguments)):
        raise SettingsError(
            "--state-url: its password would show in process lists: put it into a file that "
            "--state-password-file names, or the whole URL into STEELYARD_STATE_URL"
        )
    line = FLAGS.parse(arguments)
    file = program_settings.read_file(FLAGS, line, environment, read=read, parse=_yaml, tables=TABLES)
    given = program_settings.collect(FLAGS, line, environment, file)
    files = {name: given.optional(name, _path) for name in given if name.endswith("-file")}

    def secret(name: str, parse: Callable[[str], T]) -> T | None:
        return FLAGS.secret(name, environment, parse, file=files.get(f"{name}-file"))

    tables = _tables(given, file, environment)
    settings = Settings(
        api_host=given.value("api-host", _host),
        api_port=given.value("api-port", setting_values.port),
        memcached=given.value("memcached", _memcached),
        state_url=given.value("state-url", _state_url),
        installation=given.optional("installation", _installation) or "",
        id=given.optional("id", _id) or "",
        advertise_url=given.optional("advertise-url", _http_url) or "",
        lease_s=given.value("lease-s", setting_values.number("seconds", 0.5, 60)),
        wait_replicas=given.value(
            "wait-replicas", setting_values.whole_number("a number of replicas", 1, 16)
        ),
        history_s=given.value("history-s", setting_values.number("seconds", 10, 86_400)),
        agent_check_host=given.value("agent-check-host", _host),
        agent_check_port=given.optional("agent-check-port", setting_values.port),
        xds_host=given.value("xds-host", _host),
        xds_port=given.optional("xds-port", setting_values.port),
        xds_cert_file=files.get("xds-cert-file"),
        xds_cert_key_file=files.get("xds-cert-key-file"),
        xds_client_ca_file=files.get("xds-client-ca-file"),
        admin_token_file=files.get("admin-token-file"),
        agent_token_file=files.get("agent-token-file"),
        read_token_file=files.get("read-token-file"),
        tokens_file=files.get("tokens-file"),
        max_body_bytes=given.value("max-body-bytes", setting_values.whole_number("bytes", 1024, 2**26)),
        metrics_servers=given.value(
            "metrics-servers", setting_values.whole_number("a number of servers", 0, 10**9)
        ),
        tick_s=given.value("tick-s", setting_values.number("seconds", 0.1, 60)),
        log_level=given.value("log-level", _log_level),
        log_format=given.value("log-format", _log_format),
        key_file=files.get("key-file"),
        derived_keys=given.value("derived-keys", _derived_keys),
        state_password_file=files.get("state-password-file"),
        sentinel_password_file=files.get("sentinel-password-file"),
        load_balancers=given.value("load-balancers", _load_balancers),
        kubernetes=given.optional("kubernetes", _namespaces) or "",
        key=secret("key", signature.key_of_variable),
        admin_token=secret("admin-token", str),
        agent_token=secret("agent-token", str),
        read_token=secret("read-token", str),
        state_password=secret("state-password", str),
        sentinel_password=secret("sentinel-password", str),
        upstreams=tables.upstreams,
        kubernetes_claims=tables.kubernetes_claims,
    )
    given.raise_mistakes()
    return _checked(settings)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _checked(settings: Settings) -> Settings:
    files = (settings.xds_cert_file, settings.xds_cert_key_file, settings.xds_client_ca_file)
    if any(files) and not all(files):
        raise SettingsError(
            "--xds-cert-file, --xds-cert-key-file and --xds-client-ca-file go together: give all three"
        )
    if settings.xds_port is not None and not any(files) and not is_loopback(settings.xds_host):
        raise SettingsError(
            f"--xds-host is {settings.xds_host}, which other machines reach: give --xds-cert-file, "
            "--xds-cert-key-file and --xds-client-ca-file, or listen on 127.0.0.1"
        )
    return settings


class _Tables(BaseModel):
    """The keys of the file that no flag has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    upstreams: dict[Name, Upstream] = {}
    kubernetes_claims: dict[str, list[Annotated[str, Field(pattern=_CLAIM)]]] | None = None


def _tables(given: Given, file: SettingsFile | None, environment: Mapping[str, str]) -> _Tables:
    """Return what the file declares, or variables as JSON; add the mistakes to those of `given`."""
    documents = {} if file is None else dict(file.tables)
    of_environment = {name: FLAGS.variable(name) for name in TABLES if environment.get(FLAGS.variable(name))}
    for name, variable in of_environment.items():
        try:
            documents[name] = json_text.parse(environment[variable])
        except json.JSONDecodeError as error:
            raise SettingsError(f"{variable}: it is not JSON: {error}") from None
        except ValueError as error:
            raise SettingsError(f"{variable}: {error}") from None
        except RecursionError:
            raise SettingsError(f"{variable}: its arrays or objects are nested too deeply") from None
    try:
        return _Tables.model_validate(documents, strict=True)
    except ValidationError as error:
        for each in error.errors():
            place = each["loc"]
            in_file = file is not None and place[0] not in of_environment
            source = (
                file.source(*place)
                if in_file and file
                else f"{of_environment[str(place[0])]}: {_dotted(place)}"
            )
            given.add_mistake(f"{source}: {message(each, None)}")
        return _Tables()


def _dotted(place: Sequence[str | int]) -> str:
    return program_settings.printable(".".join(map(str, place)))


def _yaml(text: str) -> ParsedFile:
    document = yaml_text.parse(text)
    values = {} if document.value is None else document.value
    if not isinstance(values, dict):
        raise ValueError(f"it must hold keys such as `upstreams:`, not a {type(values).__name__}")
    return ParsedFile(values=values, line_of=document.line_of)


def _path(text: str) -> Path:
    # An empty variable is not "no file": a secret that failed to arrive would turn the check off.
    if not text:
        raise ValueError("give the path of a file, or leave it out")
    return Path(text)


def _host(text: str) -> str:
    # asyncio would listen on every address.
    if not text:
        raise ValueError("give a host, such as 127.0.0.1, or * for every address")
    return text


def _installation(text: str) -> str:
    # It becomes a part of keys in Redis and Memcached.
    if not wire.NAME.fullmatch(text):
        raise ValueError("give at most 64 letters, digits, dots, dashes and underscores, such as shop")
    return text


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("give at most 64 letters, digits, dots, dashes and underscores")
    return text


def _memcached(text: str) -> str:
    setting_values.servers(text)
    return text


def _state_url(text: str) -> str:
    if not text.startswith("memory://"):
        redis_url.parse(text)
    return text


def _http_url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    # The API shows the leader's URL to everybody: it must not hold a user name or a password.
    named = "@" in parts.netloc
    if text and (parts.scheme not in {"http", "https"} or not parts.netloc or named or parts.query):
        raise ValueError("give http://HOST:PORT, as other controllers reach this one")
    return text.rstrip("/")


def _log_level(text: str) -> LogLevel:
    match text:
        case "debug" | "info" | "warning" | "error":
            return text
    raise ValueError("give debug, info, warning or error")


def _log_format(text: str) -> LogFormat:
    match text:
        case "text" | "json":
            return text
    raise ValueError("give text or json")


def _derived_keys(text: str) -> DerivedKeys:
    match text:
        case "off" | "accept" | "require":
            return text
    raise ValueError("give off, accept or require")


def _load_balancers(text: str) -> tuple[str, ...]:
    names = text.split(",") if text else []
    for name in names:
        if not wire.NAME.fullmatch(name):
            raise ValueError(
                f"{name[:70]!r} is no name of a load balancer: give edge-1,edge-2 (nginx's option `lb`)"
            )
    return tuple(names)


def _namespaces(text: str) -> str:
    names = [each.strip() for each in text.split(",")] if text.strip() else []
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise ValueError(
                f"{name[:70]!r} is no namespace: give all, or names such as shop,payments (lower-case "
                "letters, digits and dashes)"
            )
    if len(names) > 1 and "all" in names:
        raise ValueError("give all, or the names of namespaces, not both")
    return ",".join(dict.fromkeys(names))
