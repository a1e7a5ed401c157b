"""Keeps the newest sample in a file, as an ORCA value. I/O only.

The file is replaced in one step, so that a reader never sees half of it, and
removed while there is nothing to show, or it cannot be written. It is not synced to disk: after a restart
its content has no value. (Put it on a tmpfs, such as /run.)
"""

import contextlib
import logging
import os
from pathlib import Path

from steelyard_agent.outputs import orca_report
from steelyard_agent.outputs.metrics import Status

log = logging.getLogger(__name__)


class OrcaFile:
    """One file; a failure is logged when it begins and when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # In the same folder, because a rename does not cross file systems.
        self._next = path.with_name(f".{path.name}.{os.getpid()}")
        self._failing = False

    def show(self, status: Status) -> None:
        """Write the sample's value, or remove the file if there is none."""
        report = {} if status.record is None else orca_report.joined(status.record, status.application)
        value = orca_report.text(report)
        try:
            if value is None:
                self._path.unlink(missing_ok=True)
            else:
                self._next.write_text(f"{value}\n", encoding="ascii")
                self._next.replace(self._path)
        except OSError as error:
            if not self._failing:
                log.warning("%s cannot be written (%s); sampling goes on", self._path, error.strerror)
            self._failing = True
            # The value has no time: the earlier one would pass for the load of now.
            for path in (self._path, self._next):
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            return
        if self._failing:
            log.info("%s can be written again", self._path)
            self._failing = False

    def close(self) -> None:
        """Remove the file."""
        for path in (self._path, self._next):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s cannot be removed (%s)", path, error.strerror)
