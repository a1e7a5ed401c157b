"""The disk of nginx's saved tables full, while tables change (I/O by the stage)."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from steelyard_agent import signature
from steelyard_agent.wire import Refused
from steelyard_controller.pipeline import weight_table

from steelyard_loadtest.chaos.faults import bounds, seen
from steelyard_loadtest.chaos.faults.stored import UPSTREAM
from steelyard_loadtest.chaos.model import Fault
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.stage.stage import Stage

PEER = "server-3"
"""Drained and taken back, so that there is a table to be saved."""

SAVES_S = 5.0
"""nginx saves once in 5 s (io/saved.lua)."""

CHUNK = 4096

MOST_BYTES = 16 * 1024 * 1024
"""A disk that is larger is not the stage's, but somebody's."""


def _filler(stage: Stage) -> Path:
    return stage.state_dir / "filler"


def _fill(stage: Stage, _notes: dict[str, object]) -> None:
    if shutil.disk_usage(stage.state_dir).total > MOST_BYTES:
        raise ProgramError(f"{stage.state_dir} is no small disk of its own, and is not filled up")
    with _filler(stage).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"f" * CHUNK)
        except OSError:
            pass  # that is what it is for
    seen.change(stage, "PATCH", f"/peers/{PEER}", {"state": "drain"})


def _empty(stage: Stage, _notes: dict[str, object]) -> None:
    try:
        seen.change(stage, "PATCH", f"/peers/{PEER}", {"state": "up"})
    finally:
        _filler(stage).unlink(missing_ok=True)


def _old_one_is_whole(stage: Stage, _notes: Mapping[str, object]) -> str | None:
    status = stage.status()
    if status is None or not status["saved_error"]:
        return "nginx does not say that it cannot save: was the disk full?"
    if stage.key is None:
        return None
    path = stage.state_dir / f"{UPSTREAM}.weights"
    table = signature.read(stage.key, path.read_bytes(), weight_table.decode)
    return f"the table that was saved before is damaged: {table}" if isinstance(table, Refused) else None


def faults() -> list[Fault]:
    """Return the fault of the disk."""
    return [
        Fault(
            name="disk of the saved table full", group="disk", begin=_fill, end=_empty,
            lasts_s=SAVES_S + bounds.ANSWERS_AGAIN_S, check=_old_one_is_whole, quick=True,
            bound=bounds.untouched(bounds.TICKS_S, "the table saved before stays whole, and nginx says so"),
        )
    ]  # fmt: skip
