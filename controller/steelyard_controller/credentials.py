"""Reads the configured secrets: the shared key, the tokens, the store's passwords. I/O only.

Each comes from a file or from the environment; settings refuse both at once. Without an admin token and a
tokens file, the controller uses a token that it generated.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol import secret_file
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.secret_file import SecretFileError

from steelyard_controller import generated_token
from steelyard_controller.api import token_file
from steelyard_controller.api.tokens import Access, BadToken, Named, access, checked, tokens_of
from steelyard_controller.flags import FLAGS
from steelyard_controller.messages.keyring import Keyring
from steelyard_controller.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The API's tokens, the key shared with agents and load balancers, and the store's passwords.

    `generated_file` has the admin token if none is configured; without it, `not_generated` has the reason.
    """

    access: Access
    generated_file: Path | None = None
    not_generated: str | None = None
    keys: Keyring = field(default_factory=Keyring)
    state_password: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)


def read(settings: Settings) -> Credentials:
    """Return the secrets; raise `SettingsError`, `SecretFileError`."""
    admin = _tokens("admin-token", settings.admin_token_file, settings.admin_token)
    file: Path | None = None
    generated = not_generated = None
    named = Named() if settings.tokens_file is None else token_file.read(settings.tokens_file)
    if not admin and settings.tokens_file is None:
        try:
            file = generated_token.path(os.environ)
            generated = checked(generated_token.read_or_make(file))
        except BadToken as error:
            not_generated = f"{file}: {error}"
        except (OSError, SecretFileError) as error:
            # Without the token no client can change anything, but ticks go on.
            not_generated = str(error)
    key = secret_file.key(settings.key_file, settings.key)
    if key is None and settings.derived_keys != "off":
        raise SettingsError(
            "--derived-keys: there is no shared key to derive them from: set --key-file, or leave it out"
        )
    return Credentials(
        keys=Keyring(shared=key, derived=settings.derived_keys),
        access=access(
            admin=admin,
            agent=_tokens("agent-token", settings.agent_token_file, settings.agent_token),
            read=_tokens("read-token", settings.read_token_file, settings.read_token),
            generated=generated,
            key=None if settings.derived_keys == "off" else key,
            named=named,
        ),
        generated_file=file,
        not_generated=not_generated,
        state_password=_password("state-password", settings.state_password_file, settings.state_password),
        sentinel_password=_password(
            "sentinel-password", settings.sentinel_password_file, settings.sentinel_password
        ),
    )


def warnings(settings: Settings) -> Iterator[str]:
    """Yield the faults of the files' permissions."""
    return secret_file.warnings(
        [
            (settings.key_file, "key"),
            (settings.admin_token_file, "token"),
            (settings.agent_token_file, "token"),
            (settings.read_token_file, "token"),
            (settings.tokens_file, "tokens"),
            (settings.state_password_file, "password"),
            (settings.sentinel_password_file, "password"),
            (settings.xds_cert_key_file, "key"),
        ]
    )


def _tokens(name: str, file: Path | None, secret: str | None) -> tuple[str, ...]:
    if file is not None:
        return secret_file.read(file, "token", tokens_of)
    try:
        return () if secret is None else (checked(secret),)
    except BadToken as error:
        raise SettingsError(f"{FLAGS.variable(name)}: {error}") from None


def _password(name: str, file: Path | None, secret: str | None) -> str | None:
    if file is not None:
        return secret_file.read(file, "password", _password_of)
    if secret == "":
        raise SettingsError(f"{FLAGS.variable(name)}: it is empty; remove it if there is no password")
    return secret


def _password_of(text: bytes) -> str:
    password = text.decode("utf-8").removesuffix("\n").removesuffix("\r")
    if not password:
        # An empty file is not "no password": Redis would require one, and the reason would be hidden.
        raise ValueError("it is empty")
    return password
