"""Reads a file of another writer: a report, a token, an application's figures. I/O only."""

import errno
import os
import stat


def read(path: str, longest: int) -> bytes:
    """Return a file's bytes, at most `longest`; raise OSError, also for a pipe or a device."""
    # Do not wait for a writer into a pipe of that name.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(longest)
