"""The files between a generator's own process (locust's, the open loop's) and the session."""

import contextlib
import time
from pathlib import Path
from typing import TextIO

from steelyard_loadtest.generators.tally import Request, line_of, read_requests
from steelyard_loadtest.reporting.publish import write_text

BEGAN = "began"
REQUESTS = "requests.csv"
CPU = "cpu_s"

BUFFER_BYTES = 1 << 16
"""Writing each line by itself would cost as much as sending its request."""


class Recording:
    """One folder's files. Times are time.monotonic's, which on Linux all processes share."""

    def __init__(self, folder: Path) -> None:
        self._began, self._requests, self._cpu = (folder / name for name in (BEGAN, REQUESTS, CPU))
        self._lines: TextIO | None = None
        self._read_bytes = 0

    def clear(self) -> None:
        """Remove another load's files."""
        for file in (self._began, self._requests, self._cpu):
            file.unlink(missing_ok=True)

    def announce(self, began_s: float) -> None:
        """Announce when the counted part begins."""
        write_text(self._began, repr(began_s))

    def began_s(self) -> float | None:
        """Return when the counted part began; None before it has."""
        try:
            began_s = float(self._began.read_text())
        except FileNotFoundError:
            return None
        return began_s if began_s <= time.monotonic() else None

    def add(self, request: Request) -> None:
        """Write down one request, at once: kept in memory they would lengthen the collector's pauses."""
        if self._lines is None:
            self._lines = self._requests.open("w", buffering=BUFFER_BYTES)
        self._lines.write(line_of(request))

    def flush(self) -> None:
        """Let others read the requests added so far."""
        if self._lines is not None:
            self._lines.flush()

    def end(self, cpu_s: float) -> None:
        """Close the record; cpu_s: the generator's CPU time in the counted part."""
        if self._lines is None:
            self._requests.touch()
        else:
            self._lines.close()
        self._cpu.write_text(repr(cpu_s))

    def read(self) -> list[Request]:
        """Return the whole lines written since the last call. Raises UnreadableError."""
        try:
            with self._requests.open("rb") as stream:
                stream.seek(self._read_bytes)
                whole = stream.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        if not whole:
            return []
        self._read_bytes += len(whole) + 1
        return read_requests(whole.decode().split("\n"))

    def cpu_s(self) -> float | None:
        """Return the CPU time of a load that ended in order; None for another."""
        with contextlib.suppress(OSError, ValueError):
            return float(self._cpu.read_text())
        return None
