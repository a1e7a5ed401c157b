"""Waiting for another process, with enough patience for a loaded machine."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

# Long enough for a loaded machine; a daemon is usually there within 50 ms.
PATIENCE_S = 60.0

T = TypeVar("T")


def wait_until(
    look: Callable[[], T | None],
    what: str | Callable[[], str] = "it did not happen",
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Call `look` until it returns something true, and return that; fail with `what` in the end."""
    deadline = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return seen
