"""The file that holds the shared key. I/O only."""

import stat
from pathlib import Path

from steelyard_agent import signature

# A key has tens of bytes. A device or a log that was named by mistake is not read to its end.
MOST_BYTES = 4096


class KeyFileError(Exception):
    """The file gives no key; the message says why, and never what is in it."""


def read(path: Path) -> bytes:
    """Return the key in a file; raise `KeyFileError`."""
    try:
        with path.open("rb") as file:
            secret = file.read(MOST_BYTES + 1)
        if len(secret) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES} bytes, which is no key")
        return signature.key_of(secret)
    except OSError as error:
        raise KeyFileError(f"the key file {path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also from open(), for a name with a NUL
        raise KeyFileError(f"the key file {path}: {error}") from None


def warning(path: Path) -> str | None:
    """Return what is wrong with who may read the file; None when nothing is."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return f"every user of this machine can read the key in {path}: chmod o-r {path}"
