"""The files that hold tokens. I/O only."""

from pathlib import Path

from steelyard_agent import secret_file
from steelyard_agent.secret_file import SecretFileError

from steelyard_controller.api.tokens import tokens_of

TokenFileError = SecretFileError


def read(path: Path) -> tuple[str, ...]:
    """Return the tokens of a file, one a line; raise `TokenFileError`."""
    return secret_file.read(path, "token", tokens_of)


def warning(path: Path) -> str | None:
    """Return what is wrong with who may read the file; None when nothing is."""
    return secret_file.warning(path, "token")
