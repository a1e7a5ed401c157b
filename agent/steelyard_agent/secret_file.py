"""A file that holds one secret: a key, a token. I/O only."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# A secret has tens of bytes. A device or a log that was named by mistake is not read to its end.
MOST_BYTES = 4096


class SecretFileError(Exception):
    """The file gives no secret; the message says why, and never what is in it."""


def read(path: Path, what: str, parse: Callable[[bytes], T]) -> T:
    """Return what `parse` (which may raise ValueError) makes of a file; raise `SecretFileError`."""
    try:
        with path.open("rb") as file:
            secret = file.read(MOST_BYTES + 1)
        if len(secret) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes, which is no {what}")
        return parse(secret)
    except OSError as error:
        raise SecretFileError(f"the {what} file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also from open(), for a name with a NUL
        raise SecretFileError(f"the {what} file {path}: {error}") from None


def warning(path: Path, what: str) -> str | None:
    """Return what is wrong with who may read the file; None when nothing is."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return f"every user of this machine can read the {what} in {path}: chmod o-r {path}"
