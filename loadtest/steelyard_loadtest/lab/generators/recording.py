"""The files by which a generator's own process (locust's, the open loop's) and the session speak."""

import time
from pathlib import Path
from typing import TextIO

from steelyard_loadtest.lab.generators.tally import Request, line_of, read_requests
from steelyard_loadtest.machine.errors import UnreadableError

BEGAN = "began"
REQUESTS = "requests.csv"
CPU = "cpu_s"

BUFFER_BYTES = 1 << 16
"""To write each line by itself would cost as much as to send its request."""


class Recording:
    """One folder's files. Times are time.monotonic's, which on Linux all processes share."""

    def __init__(self, folder: Path) -> None:
        self._began, self._requests, self._cpu = (folder / name for name in (BEGAN, REQUESTS, CPU))
        self._lines: TextIO | None = None

    def clear(self) -> None:
        """Remove what another load left."""
        for file in (self._began, self._requests, self._cpu):
            file.unlink(missing_ok=True)

    def announce(self, began_s: float) -> None:
        """Tell when the counted part begins, in one step, so that nobody reads half a number."""
        fresh = self._began.with_suffix(".new")
        fresh.write_text(repr(began_s))
        fresh.replace(self._began)

    def began_s(self) -> float | None:
        """Return when the counted part began; None before it has."""
        try:
            began_s = float(self._began.read_text())
        except FileNotFoundError:
            return None
        return began_s if began_s <= time.monotonic() else None

    def add(self, request: Request) -> None:
        """Write down one request, at once: kept in memory they would lengthen the pauses of its collector."""
        if self._lines is None:
            self._lines = self._requests.open("w", buffering=BUFFER_BYTES)
        self._lines.write(line_of(request))

    def flush(self) -> None:
        """Let others read what was added so far."""
        if self._lines is not None:
            self._lines.flush()

    def end(self, cpu_s: float) -> None:
        """Close the record; cpu_s: the CPU time that the generator used in the counted part."""
        if self._lines is None:
            self._requests.touch()
        else:
            self._lines.close()
        self._cpu.write_text(repr(cpu_s))

    def read(self) -> tuple[list[Request], float]:
        """Return what was written. Raises UnreadableError."""
        try:
            cpu_s = float(self._cpu.read_text())
            with self._requests.open() as lines:
                return read_requests(lines), cpu_s
        except (OSError, ValueError) as error:
            raise UnreadableError(f"the generator left no record of its requests: {error}") from None
