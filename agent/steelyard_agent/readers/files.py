"""Reads small files of the kernel, as cheaply as Python can: an agent reads a dozen of them a second.

A `ColumnReader` keeps one unreadable file from stopping the others.
"""

import logging
import os
from collections.abc import Callable
from typing import TypeVar

from steelyard_agent.log_text import one_line

log = logging.getLogger(__name__)

T = TypeVar("T")

# The kernel hands out a page at a time; a few KB hold all but memory.stat, /proc/stat and long lists.
CHUNK_BYTES = 8192


def read(path: str, longest: int = 1024 * 1024) -> bytes:
    """Return a file's bytes, at most `longest`; raise OSError."""
    # Costs half as much as Path.read_bytes. procfs may return less than is asked for: read on to the end.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while longest > 0 and (part := os.read(file, min(longest, CHUNK_BYTES))):
            parts.append(part)
            longest -= len(part)
        return b"".join(parts)
    finally:
        os.close(file)


def read_or_none(path: str) -> bytes | None:
    """Return a file's bytes, None if it cannot be read."""
    try:
        return read(path)
    except OSError:
        return None


def names(folder: str) -> list[str]:
    """Return the names in a folder; none if it does not exist (any more)."""
    try:
        return os.listdir(folder)  # noqa: PTH208 (three times as fast as Path.iterdir, many times a tick)
    except OSError:
        return []


def exists(path: str) -> bool:
    """Return whether a file exists."""
    return os.path.exists(path)  # noqa: PTH110 (a Path would only be made for it)


def below(root: object, path: str) -> str:
    """Return an absolute path as seen below `root`."""
    prefix = str(root).rstrip("/")
    return f"{prefix}{path}"


class ColumnReader:
    """Reads columns by name; a failure is None, and is logged when it begins and when it ends.

    `whose` columns they are is in the log if several readers log.
    """

    def __init__(self, whose: str = "") -> None:
        self._whose = f"{whose}: " if whose else ""
        self._failing: set[str] = set()

    def read(self, name: str, reader: Callable[[], T]) -> T | None:
        """Return `reader()`, or None if it raises."""
        try:
            value = reader()
        except Exception as error:  # kernels, containers and drivers raise anything
            if name not in self._failing:
                self._failing.add(name)
                log.warning(
                    "%s%s cannot be read (%s): its column is null until it can",
                    self._whose, name, one_line(f"{type(error).__name__}: {error}").removesuffix(":"),
                )  # fmt: skip
            return None
        if name in self._failing:
            self._failing.discard(name)
            log.info("%s%s can be read again", self._whose, name)
        return value
