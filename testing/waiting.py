"""Waiting for another process, with enough patience for a loaded machine."""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

# Long enough for a loaded machine; a daemon is usually there within 50 ms.
PATIENCE_S = 60.0

# A look costs a daemon and Python a millisecond or more, and most waits end within a tenth of a second. So
# looks become rarer, in proportion to the time that has passed.
FIRST_S, LATER_PART, LATER_S = 0.02, 0.2, 0.1

T = TypeVar("T")


def wait_until(
    look: Callable[[], T | None],
    what: str | Callable[[], str] = "it did not happen",
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Call `look` until it returns something true, and return that; fail with `what` in the end."""
    began_s = time.monotonic()
    while not (seen := look()):
        waited_s = time.monotonic() - began_s
        if waited_s > patience_s:
            pytest.fail(f"not within {patience_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(max(FIRST_S, LATER_PART * waited_s), LATER_S))
    return seen
