"""The controller's settings: flags, then environment (STEELYARD_...), then a YAML file, then defaults.

Built once in `__main__` and passed down; nothing else reads the environment.
"""

import argparse
import contextlib
import ipaddress
import os
import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    CliSuppress,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from steelyard_protocol import setting_values, signature, wire

from steelyard_controller.declarations.declaration import mistakes
from steelyard_controller.declarations.upstream import LOAD_BALANCERS, Name, Upstream
from steelyard_controller.messages.keyring import DerivedKeys
from steelyard_controller.store import redis_url

# A DNS label, RFC 1123.
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


# An upstream's name, or a pattern of such names.
CLAIM = re.compile(r"^[A-Za-z0-9*][A-Za-z0-9._*-]{0,63}$")


T = TypeVar("T")


def _setting(default: T, description: str, **bounds: Any) -> T:  # noqa: ANN401 - pydantic's own
    return cast(T, Field(default=default, description=description, **bounds))


class Settings(BaseSettings):
    """The controller's settings; each field is a flag, an environment variable and a YAML key."""

    model_config = SettingsConfigDict(
        env_prefix="STEELYARD_", extra="forbid", frozen=True, cli_kebab_case=True, cli_hide_none_type=True
    )

    api_host: str = _setting("127.0.0.1", "address the REST API listens on")
    api_port: int = _setting(8081, "port the REST API listens on", ge=1, le=65535)
    memcached: str = _setting("127.0.0.1:11211", "Memcached, host:port,...")
    state_url: str = _setting(
        "redis://127.0.0.1:6379/0",
        "redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or memory:// "
        "(nothing outlives a restart)",
    )
    id: str = _setting("", "this controller's name (host name and port)", pattern=r"^[A-Za-z0-9._-]{0,64}$")
    advertise_url: str = _setting("", "how other controllers reach this one's API (http://api_host:api_port)")
    lease_s: float = _setting(3.0, "how long a leader is believed alive after its last sign", ge=0.5, le=60)
    wait_replicas: int = _setting(
        1,
        "replicas of Redis that must have a term or a declaration, behind Sentinels or in a "
        "cluster; of fewer that are connected all",
        ge=1,
        le=16,
    )
    history_s: float = _setting(900.0, "seconds of history that are kept", ge=10, le=86_400)
    agent_check_host: str = _setting("127.0.0.1", "address HAProxy's agent-check listens on")
    agent_check_port: int | None = _setting(
        None, "port HAProxy's agent-check listens on; unset: it does not", ge=1, le=65535
    )
    xds_host: str = _setting("127.0.0.1", "address that Envoys ask for endpoints (xDS)")
    xds_port: int | None = _setting(None, "port that Envoys ask for endpoints; unset: none", ge=1, le=65535)
    xds_cert_file: Path | None = _setting(None, "certificate shown to Envoys (PEM)")
    xds_cert_key_file: Path | None = _setting(None, "its private key (PEM)")
    xds_client_ca_file: Path | None = _setting(None, "authority that Envoys' certificates must be of (PEM)")
    admin_token_file: Path | None = _setting(None, "file of the tokens that may do everything, one a line")
    agent_token_file: Path | None = _setting(None, "file of the tokens that may register servers")
    read_token_file: Path | None = _setting(
        None, "file of the tokens that may read; where set, reading needs one"
    )
    tokens_file: Path | None = _setting(
        None, "file of named tokens with their scopes, valid from the moment it changes"
    )
    max_body_bytes: int = _setting(2**20, "largest request body that the API takes", ge=1024, le=2**26)
    metrics_servers: int = _setting(2000, "servers up to which /metrics has series of each; 0: of none", ge=0)
    tick_s: float = _setting(1.0, "seconds between two decisions", ge=0.1, le=60)
    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "what is logged")
    key_file: Path | None = _setting(
        None, "file that holds the shared key: all that is read must be signed with it"
    )
    derived_keys: DerivedKeys = _setting(
        "off",
        "keys and tokens of one sender alone (`steelyard keys`): off, accept beside the shared "
        "key, or require",
    )
    state_password_file: Path | None = _setting(
        None, "file that holds Redis's password, where the URL has none"
    )
    state_password: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_STATE_PASSWORD only")
    sentinel_password_file: Path | None = _setting(
        None, "file that holds the Sentinels' password, where they have one"
    )
    sentinel_password: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_SENTINEL_PASSWORD only")
    key: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_KEY only")
    admin_token: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_ADMIN_TOKEN only")
    agent_token: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_AGENT_TOKEN only")
    read_token: CliSuppress[SecretStr | None] = _setting(None, "STEELYARD_READ_TOKEN only")
    load_balancers: str = _setting(
        ",".join(LOAD_BALANCERS),
        "the load balancers that are expected to report on upstreams which declare none: "
        "edge-1,edge-2; empty: none",
    )
    kubernetes: str = _setting(
        "",
        "namespaces whose annotated Services declare upstreams, with commas between several, or "
        "all; unset: Kubernetes is not asked",
    )
    kubernetes_claims: CliSuppress[dict[str, list[Annotated[str, Field(pattern=CLAIM.pattern)]]] | None] = (
        _setting(None, "by namespace the upstreams that its Services may claim, see docs")
    )
    log_format: Literal["text", "json"] = _setting("text", "how a line of the log is written")
    upstreams: CliSuppress[dict[Name, Upstream]] = _setting({}, "see docs")

    @field_validator("state_url")
    @classmethod
    def _is_known_url(cls, value: str) -> str:
        if not value.startswith("memory://"):
            redis_url.parse(value)
        return value

    @field_validator("load_balancers")
    @classmethod
    def _are_names(cls, value: str) -> str:
        for name in value.split(",") if value else ():
            if not wire.NAME.fullmatch(name):
                raise ValueError(
                    f"{name[:70]!r} is no name of a load balancer: write edge-1,edge-2 (nginx's `lb`)"
                )
        return value

    @field_validator("kubernetes")
    @classmethod
    def _are_namespaces(cls, value: str) -> str:
        named = [each.strip() for each in value.split(",")] if value.strip() else []
        for each in named:
            if not NAMESPACE.fullmatch(each):
                raise ValueError(
                    f"{each[:70]!r} is no namespace: write all, or names such as shop,payments "
                    "(small letters, digits and dashes)"
                )
        if len(named) > 1 and "all" in named:
            raise ValueError("all does not go with the names of namespaces: leave one of them out")
        return ",".join(dict.fromkeys(named))

    @field_validator("key")
    @classmethod
    def _is_long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        _key(value)
        return value

    @field_validator("memcached")
    @classmethod
    def _are_hosts_and_ports(cls, value: str) -> str:
        try:
            setting_values.servers(value)
        except ValueError:
            raise ValueError(
                "write it as host:port, for instance 127.0.0.1:11211, with commas between several"
            ) from None
        return value

    @field_validator("advertise_url")
    @classmethod
    def _is_an_http_url(cls, value: str) -> str:
        parts = urllib.parse.urlsplit(value)
        # A user name and password would be shown to everybody who asks who leads.
        named = "@" in parts.netloc
        if value and (parts.scheme not in {"http", "https"} or not parts.netloc or named or parts.query):
            raise ValueError("write it as http://host:port, as other controllers reach this one")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _has_each_secret_once(self) -> "Settings":
        for secret in SECRETS:
            if getattr(self, secret) is not None and getattr(self, f"{secret}_file") is not None:
                raise ValueError(f"{secret} and {secret}_file are both set: leave one out")
        return self

    @model_validator(mode="after")
    def _trusts_no_stranger(self) -> "Settings":
        files = (self.xds_cert_file, self.xds_cert_key_file, self.xds_client_ca_file)
        if any(files) and not all(files):
            raise ValueError(
                "xds_cert_file, xds_cert_key_file and xds_client_ca_file go together: give all three"
            )
        if self.xds_port is not None and not any(files) and not is_loopback(self.xds_host):
            raise ValueError(
                f"xds_host is {self.xds_host}, which others reach: give xds_cert_file, xds_cert_key_file and "
                "xds_client_ca_file, or listen on 127.0.0.1"
            )
        return self

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that are watched; none: where Kubernetes is asked at all, every one."""
        return tuple(self.kubernetes.split(",")) if self.kubernetes not in {"", "all"} else ()

    def key_of_environment(self) -> bytes | None:
        """Return the shared key that STEELYARD_KEY holds; None where it is not set."""
        return _key(self.key)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _key(secret: SecretStr | None) -> bytes | None:
    return None if secret is None else signature.key_of_variable(secret.get_secret_value())


SECRETS = ("key", "admin_token", "agent_token", "read_token", "state_password", "sentinel_password")
"""The settings that come from the environment or a file of their own, never from a flag or the YAML file."""


class SettingsError(Exception):
    """A setting is wrong; the message is one line per mistake, for a person."""


def load(arguments: Sequence[str]) -> Settings:
    """Return the settings of a command line; raise `SettingsError` naming each wrong field."""
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    before.add_argument("--config", default=os.environ.get("STEELYARD_CONFIG"))
    known, rest = before.parse_known_args(arguments)
    from_file = _read_yaml(Path(known.config)) if known.config else {}
    for secret in SECRETS:
        flag = f"--{secret.replace('_', '-')}"
        if any(argument.split("=")[0] == flag for argument in rest):
            raise SettingsError(
                f"{flag}: flags show in process lists: use STEELYARD_{secret.upper()} or {flag}-file"
            )
        if secret in from_file:
            raise SettingsError(f"{secret}: put it into a file of its own, and name that with {secret}_file")
    if any(map(_shows_a_password, rest)):
        raise SettingsError(
            "--state-url: its password would show in process lists: put it into a file that "
            "--state-password-file names, or the whole URL into STEELYARD_STATE_URL"
        )

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            *_: PydanticBaseSettingsSource,
            **__: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            flags: CliSettingsSource[Settings] = CliSettingsSource(
                settings_cls,
                cli_prog_name="steelyard-controller",
                cli_parse_args=list(rest),
                root_parser=_parser(),
            )
            environment = EnvSettingsSource(settings_cls)
            # Kubernetes sets STEELYARD_API_PORT=tcp://10.0.0.1:8081 for a Service called steelyard-api.
            environment.env_vars = {
                name: value
                for name, value in environment.env_vars.items()
                if not (name.endswith("_port") and (value or "").startswith(("tcp://", "udp://")))
            }
            return flags, environment, InitSettingsSource(settings_cls, from_file)

    try:
        return Sourced()
    except ValidationError as error:
        raise SettingsError(mistakes(error, whole="settings", between="\n")) from None


def _shows_a_password(argument: str) -> bool:
    # Not parsed: a URL that cannot be read is in process lists as well.
    schemes = r"(rediss?|unix|sentinel|cluster)://"
    return re.search(rf"{schemes}(.*[?&](sentinel_)?password=|[^/@]*:[^@]*@)", argument) is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="steelyard-controller",
        description="Turn samples into weight tables. Every flag is also STEELYARD_NAME in the environment "
        "and a key of the YAML file. Flags beat the environment, which beats the file.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file (STEELYARD_CONFIG)")
    return parser


def _read_yaml(path: Path) -> dict[str, object]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"--config: {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"--config: {path} is not YAML: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise SettingsError(
            f"--config: {path} must hold keys such as `upstreams:`, not a {type(document).__name__}"
        )
    return document
