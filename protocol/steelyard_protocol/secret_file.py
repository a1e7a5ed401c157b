"""Secrets in files: a key, a token, a password; and warnings about readable ones. I/O only.

A secret comes from a file or from the environment, never from a flag, because process lists show flags. The
settings of each program refuse both at once.
"""

import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from steelyard_protocol import signature

T = TypeVar("T")

# A secret has tens of bytes. A device or a log named by mistake is not read to its end.
MOST_BYTES = 4096


class SecretFileError(Exception):
    """The file holds no secret; the message gives the reason, and never the content."""


def read(path: Path, what: str, parse: Callable[[bytes], T], *, most_bytes: int = MOST_BYTES) -> T:
    """Return `parse` (which may raise ValueError) of a file's content; raise `SecretFileError`."""
    try:
        with path.open("rb") as file:
            secret = file.read(most_bytes + 1)
        if len(secret) > most_bytes:
            raise ValueError(f"it has more than {most_bytes} bytes, too many for a {what}")
        return parse(secret)
    except OSError as error:
        raise SecretFileError(f"the {what} file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also from open(), for a name with a NUL
        raise SecretFileError(f"the {what} file {path}: {error}") from None


def read_key(path: Path) -> bytes:
    """Return the shared key in a file; raise `SecretFileError`."""
    return read(path, "key", signature.key_of)


def key(path: Path | None, of_environment: bytes | None) -> bytes | None:
    """Return the key in the file, or the environment's if no file is named; raise `SecretFileError`."""
    return of_environment if path is None else read_key(path)


def warnings(files: Iterable[tuple[Path | None, str]]) -> Iterator[str]:
    """Yield a warning for each of these files, given with the name of its content, that every user can
    read."""
    for path, what in files:
        with suppress(OSError):
            if path is not None and path.stat().st_mode & stat.S_IROTH:
                yield f"every user of this machine can read the {what} in {path}: chmod o-r {path}"
