"""Waiting for a daemon, as long as it runs (I/O)."""

import time
from collections.abc import Callable, Collection

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.process import Process

PATIENCE_S = 30.0
"""All is there within 3 s; a machine that is busy may take longer."""

PAUSE_S = 0.05


def wait_until(reached: Callable[[], str | None], processes: Collection[Process]) -> None:
    """Ask until there is no reason left to wait. Raises ProgramError: one ended, or with the last reason."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for process in processes:
            process.check()
        why = reached()
        if why is None:
            return
        if time.monotonic() > deadline:
            raise ProgramError(f"{why}, after {PATIENCE_S:.0f} s")
        time.sleep(PAUSE_S)
