"""What an operator sets: flags, then environment (STEELYARD_...), then a YAML file, then defaults.

Built once in `__main__` and passed down; nothing else reads the environment.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

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
from steelyard_agent import flag_values, signature

from steelyard_controller.upstream import Name, Upstream


class Settings(BaseSettings):
    """The controller's settings; each field is a flag, an environment variable and a YAML key."""

    model_config = SettingsConfigDict(
        env_prefix="STEELYARD_", extra="forbid", frozen=True, cli_kebab_case=True, cli_hide_none_type=True
    )

    api_host: str = Field(default="127.0.0.1", description="address the REST API listens on")
    api_port: int = Field(default=8081, ge=1, le=65535, description="port the REST API listens on")
    memcached: str = Field(default="127.0.0.1:11211", description="Memcached, host:port,...")
    state_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        description="redis://, rediss://, unix:// or memory:// (nothing outlives a restart)",
    )
    tick_s: float = Field(default=1.0, ge=0.1, le=60, description="seconds between two decisions")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="what is logged"
    )
    key_file: Path | None = Field(
        default=None, description="file that holds the shared key: all that is read must be signed with it"
    )
    key: CliSuppress[SecretStr | None] = Field(default=None, description="STEELYARD_KEY only")
    upstreams: CliSuppress[dict[Name, Upstream]] = Field(default={}, description="see docs")

    @field_validator("state_url")
    @classmethod
    def _is_known_url(cls, value: str) -> str:
        if value.split("://")[0] not in {"redis", "rediss", "unix", "memory"} or "://" not in value:
            raise ValueError("write it as redis://host:port/0, rediss://…, unix:///path or memory://")
        return value

    @field_validator("key")
    @classmethod
    def _is_long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        # An empty one is not "none": a secret that failed to arrive would let everything in.
        _key(value)
        return value

    @field_validator("memcached")
    @classmethod
    def _are_hosts_and_ports(cls, value: str) -> str:
        try:
            flag_values.servers(value)
        except ValueError:
            raise ValueError(
                "write it as host:port, for instance 127.0.0.1:11211, with commas between several"
            ) from None
        return value

    @model_validator(mode="after")
    def _has_one_key(self) -> "Settings":
        if self.key is not None and self.key_file is not None:
            raise ValueError("key and key_file are both set: leave one out")
        return self

    def key_of_environment(self) -> bytes | None:
        """Return the shared key that STEELYARD_KEY holds; None where it is not set."""
        return _key(self.key)


def _key(secret: SecretStr | None) -> bytes | None:
    # surrogateescape: the bytes that the environment holds, as the other readers of a key see them.
    if secret is None:
        return None
    return signature.key_of(secret.get_secret_value().encode("utf-8", "surrogateescape"))


class SettingsError(Exception):
    """A setting is wrong; the message is one line per mistake, for a person."""


def load(arguments: Sequence[str]) -> Settings:
    """Return the settings of a command line; raise `SettingsError` naming each wrong field."""
    before = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    before.add_argument("--config", default=os.environ.get("STEELYARD_CONFIG"))
    known, rest = before.parse_known_args(arguments)
    from_file = _read_yaml(Path(known.config)) if known.config else {}
    if any(argument.split("=")[0] == "--key" for argument in rest):
        raise SettingsError("--key: flags show in process lists: use STEELYARD_KEY or --key-file")
    if "key" in from_file:
        raise SettingsError("key: put it into a file of its own, and name that with key_file")

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            flags: CliSettingsSource[Settings] = CliSettingsSource(
                settings_cls,
                cli_prog_name="steelyard-controller",
                cli_parse_args=list(rest),
                root_parser=_parser(),
            )
            return flags, EnvSettingsSource(settings_cls), InitSettingsSource(settings_cls, from_file)

    try:
        return Sourced()
    except ValidationError as error:
        lines = []
        for mistake in error.errors():
            where = ".".join(str(part) for part in mistake["loc"]) or "settings"
            lines.append(f"{where}: {mistake['msg'].removeprefix('Value error, ')}")
        raise SettingsError("\n".join(lines)) from None


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
