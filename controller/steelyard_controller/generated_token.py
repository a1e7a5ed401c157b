"""The admin token that controllers generate if none is configured. I/O only.

It is in a file of the user that runs them, readable by that user only. It is made once: all controllers of
that user on a machine use the same token, and the command `steelyard` finds it there. A proxy in front of a
controller does not know it, so the proxy's requests have no more rights than its own token.
"""

import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from steelyard_protocol import secret_file

# 256 bits, as from `openssl rand -hex 32`.
TOKEN_BYTES = 32


def path(environment: Mapping[str, str]) -> Path:
    """Return the file's path, by the XDG Base Directory Specification; raise OSError."""
    state = environment.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        try:
            state = str(Path.home() / ".local/state")
        except RuntimeError:
            raise OSError(0, "this user has no home folder") from None
    return Path(state) / "steelyard" / "admin_token"


def read_or_make(file: Path) -> str:
    """Return the token in the file; make the file if it is missing. Raise OSError, `SecretFileError`."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        _make(file)
    return read(file)


def read(file: Path) -> str:
    """Return the token in the file; raise `SecretFileError`."""
    return secret_file.read(file, "token", bytes).decode("ascii", "replace").strip()


def _make(file: Path) -> None:
    # mkstemp's mode is 0600. A link is made whole or not at all, and never replaces another controller's.
    handle, name = tempfile.mkstemp(prefix=".admin_token-", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as out:
            out.write(f"{secrets.token_hex(TOKEN_BYTES)}\n")
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink()
