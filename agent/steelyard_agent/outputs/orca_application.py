"""Reads the application's own ORCA load report, a file rewritten every few seconds. I/O only.

    TEXT rps_fractional=118.5,eps=0.2,application_utilization=0.7,named_metrics.queue=3

A file unchanged for STALE_S counts as empty: its application
has ended or hangs, and its rate is over.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from steelyard_agent import regular_file
from steelyard_agent.outputs import orca_report
from steelyard_agent.outputs.orca_report import LoadReport

log = logging.getLogger(__name__)

STALE_S = 10.0

NOTHING: LoadReport = {}


class ApplicationLoadReport:
    """One file; a failure is logged when it begins, when it changes and when it ends.

    Its age is counted on `clock`, a monotonic one, from the first sight of its present content.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._seen_s = 0.0
        self._wrong: str | None = None

    def read(self) -> LoadReport:
        """Return the application's load report; empty if it has none, or an unreadable one."""
        now_s, wrong, report = self._clock(), None, NOTHING
        try:
            state = self._path.stat()
            written = (state.st_mtime_ns, state.st_ino)
            if written != self._seen:
                self._seen, self._seen_s = written, now_s
            if now_s - self._seen_s > STALE_S:
                wrong = f"has not been written for {STALE_S:g} s"
            else:
                report = orca_report.parse(self._text())
        except OSError as error:
            wrong = f"cannot be read: {error.strerror}"
        except ValueError as error:
            wrong = f"is not an ORCA load report: {error}"
        if wrong != self._wrong:
            if wrong is None:
                log.info("%s can be read again", self._path)
            else:
                log.warning("%s %s; nothing is taken from it", self._path, wrong)
            self._wrong = wrong
        return report

    def _text(self) -> str:
        content = regular_file.read(str(self._path), orca_report.LONGEST_BYTES + 1)
        if len(content) > orca_report.LONGEST_BYTES:
            raise ValueError(f"it is longer than {orca_report.LONGEST_BYTES} bytes")
        return content.decode("ascii")
