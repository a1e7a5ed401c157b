"""Secrets that come from a file: a key, a token, a password; and who else can read that file. I/O only.

A secret comes from a file or from the environment, never from a flag, which shows in process lists. The
settings of each program see to it that it is not both.
"""

import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from steelyard_protocol import signature

T = TypeVar("T")

# A secret has tens of bytes. A device or a log that was named by mistake is not read to its end.
MOST_BYTES = 4096


class SecretFileError(Exception):
    """The file gives no secret; the message says why, and never what is in it."""


def read(path: Path, what: str, parse: Callable[[bytes], T], *, most_bytes: int = MOST_BYTES) -> T:
    """Return what `parse` (which may raise ValueError) makes of a file; raise `SecretFileError`."""
    try:
        with path.open("rb") as file:
            secret = file.read(most_bytes + 1)
        if len(secret) > most_bytes:
            raise ValueError(f"it has more than {most_bytes} bytes, which is no {what}")
        return parse(secret)
    except OSError as error:
        raise SecretFileError(f"the {what} file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also from open(), for a name with a NUL
        raise SecretFileError(f"the {what} file {path}: {error}") from None


def read_key(path: Path) -> bytes:
    """Return the shared key in a file; raise `SecretFileError`."""
    return read(path, "key", signature.key_of)


def key(path: Path | None, of_environment: bytes | None) -> bytes | None:
    """Return the key in the file, or the environment's where no file is named; raise `SecretFileError`."""
    return of_environment if path is None else read_key(path)


def warnings(files: Iterable[tuple[Path | None, str]]) -> Iterator[str]:
    """Yield what is wrong with who may read each file that is named; with it stands what it holds."""
    for path, what in files:
        with suppress(OSError):
            if path is not None and path.stat().st_mode & stat.S_IROTH:
                yield f"every user of this machine can read the {what} in {path}: chmod o-r {path}"
