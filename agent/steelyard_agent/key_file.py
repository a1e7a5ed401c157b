"""The file that holds the shared key. I/O only."""

from pathlib import Path

from steelyard_agent import secret_file, signature
from steelyard_agent.secret_file import SecretFileError

KeyFileError = SecretFileError


def read(path: Path) -> bytes:
    """Return the key in a file; raise `KeyFileError`."""
    return secret_file.read(path, "key", signature.key_of)


def warning(path: Path) -> str | None:
    """Return what is wrong with who may read the file; None when nothing is."""
    return secret_file.warning(path, "key")
