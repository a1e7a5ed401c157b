"""An nginx worker killed, stopped and ended; nginx and HAProxy reloaded; the disk of saved tables full."""

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGUSR2, Signals
from typing import cast

from steelyard_loadtest.machine.errors import ProgramError
from steelyard_protocol import signature, weight_table
from steelyard_protocol.wire import Refused

from steelyard_resilience.chaos.fault import Action, Notes
from steelyard_resilience.chaos.faults.cluster_state import change
from steelyard_resilience.stage.hosts import UPSTREAM
from steelyard_resilience.stage.stage import Stage

BETWEEN_RELOADS_S = 0.5
"""Shorter than a reload takes here, so that workers of three configurations live side by side."""

PEER = "server-3"
"""Drained and taken back, so that there is a table to be saved."""

CHUNK = 4096

MOST_BYTES = 16 * 1024 * 1024
"""A disk that is larger is not the stage's, but somebody's."""


def signal_worker(signal: str) -> Action:
    """Send a signal to one of nginx's workers; one that was stopped goes on at the end."""

    def begin(stage: Stage, notes: Notes) -> None:
        workers = stage.daemon("nginx").children()
        if not workers:
            raise ProgramError("nginx has no workers")
        notes["worker"] = workers[0]
        os.kill(workers[0], Signals[signal])

    def resume(_stage: Stage, notes: Notes) -> None:
        if signal == "SIGSTOP":
            os.kill(cast(int, notes["worker"]), SIGCONT)

    return Action(begin=begin, end=resume)


def reload(times: int) -> Action:
    """Tell nginx so many times to read its configuration again."""

    def begin(stage: Stage, _notes: Notes) -> None:
        for number in range(times):
            time.sleep(BETWEEN_RELOADS_S if number else 0)
            stage.daemon("nginx").signal(SIGHUP)

    return Action(begin=begin)


def reload_haproxy() -> Action:
    """Tell HAProxy's master to begin a new worker; the old one ends what it has begun."""
    return Action(begin=lambda stage, _notes: stage.daemon("haproxy").signal(SIGUSR2))


def fill_disk() -> Action:
    """Fill up the disk of nginx's saved tables, when there is another table to be saved."""
    return Action(begin=_fill, end=_empty, check=_old_one_is_whole)


def _filler(stage: Stage) -> Path:
    return stage.state_dir / "filler"


def _fill(stage: Stage, _notes: Notes) -> None:
    if shutil.disk_usage(stage.state_dir).total > MOST_BYTES:
        raise ProgramError(f"{stage.state_dir} is no small disk of its own, and is not filled up")
    with _filler(stage).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"f" * CHUNK)
        except OSError:
            pass  # that is what it is for
    change(stage, "PATCH", f"/peers/{PEER}", {"state": "drain"})


def _empty(stage: Stage, _notes: Notes) -> None:
    try:
        change(stage, "PATCH", f"/peers/{PEER}", {"state": "up"})
    finally:
        _filler(stage).unlink(missing_ok=True)


def _old_one_is_whole(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    status = stage.status()
    if status is None or not status["saved_error"]:
        return "nginx does not say that it cannot save: was the disk full?"
    path = stage.state_dir / f"{UPSTREAM}.weights"
    table = signature.read(stage.key, path.read_bytes(), weight_table.decode)
    return f"the table that was saved before is damaged: {table}" if isinstance(table, Refused) else None
