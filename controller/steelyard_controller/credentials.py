"""The secrets that the settings name: the shared key, the tokens, the store's password. I/O only.

Each comes from a file or from the environment; the settings see to it that it is not both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr
from steelyard_agent import key_file, secret_file

from steelyard_controller.api import token_files
from steelyard_controller.api.tokens import Access, BadToken, access, checked
from steelyard_controller.settings import Settings, SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What this controller knows others by, and is known by."""

    access: Access
    key: bytes | None = field(default=None, repr=False)
    state_password: str | None = field(default=None, repr=False)


def read(settings: Settings) -> Credentials:
    """Return the secrets; raise `SettingsError`, `SecretFileError`."""
    return Credentials(
        key=settings.key_of_environment() if settings.key_file is None else key_file.read(settings.key_file),
        access=access(
            admin=_tokens("admin_token", settings.admin_token_file, settings.admin_token),
            agent=_tokens("agent_token", settings.agent_token_file, settings.agent_token),
            read=_tokens("read_token", settings.read_token_file, settings.read_token),
            hosts=[urlsplit(settings.advertise_url).hostname or ""],
        ),
        state_password=_password(settings.state_password_file, settings.state_password),
    )


def warnings(settings: Settings) -> Iterator[str]:
    """Return what is wrong with who may read the files."""
    files = {
        "key": [settings.key_file],
        "token": [settings.admin_token_file, settings.agent_token_file, settings.read_token_file],
        "password": [settings.state_password_file],
    }
    for what, paths in files.items():
        for path in paths:
            unsafe = None if path is None else secret_file.warning(path, what)
            if unsafe is not None:
                yield unsafe


def _tokens(name: str, file: Path | None, secret: SecretStr | None) -> tuple[str, ...]:
    if file is not None:
        return token_files.read(file)
    try:
        return () if secret is None else (checked(secret.get_secret_value()),)
    except BadToken as error:
        raise SettingsError(f"{name}: {error}") from None


def _password(file: Path | None, secret: SecretStr | None) -> str | None:
    if file is not None:
        return secret_file.read(file, "password", _password_of)
    if secret is not None and not secret.get_secret_value():
        raise SettingsError("state_password: it is empty; leave it out where Redis wants none")
    return None if secret is None else secret.get_secret_value()


def _password_of(text: bytes) -> str:
    password = text.decode("utf-8").removesuffix("\n").removesuffix("\r")
    if not password:
        # An empty one is not "none": Redis would say that it wants one, and nobody why.
        raise ValueError("it is empty")
    return password
