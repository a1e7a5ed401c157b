"""Keeps one failing reader from stopping the others."""

import logging
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Columns:
    """Reads columns by name; a failure is None, and is logged when it begins and when it ends."""

    def __init__(self) -> None:
        self._failing: set[str] = set()

    def read(self, name: str, reader: Callable[[], T]) -> T | None:
        """Return what `reader` returns, or None when it raises."""
        try:
            value = reader()
        except Exception as error:  # whatever a kernel, a container or a driver comes up with
            if name not in self._failing:
                self._failing.add(name)
                log.warning("%s cannot be read (%s): its column is null until it can", name, said(error))
            return None
        if name in self._failing:
            self._failing.discard(name)
            log.info("%s can be read again", name)
        return value


def said(error: BaseException) -> str:
    """Return an error in words, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
