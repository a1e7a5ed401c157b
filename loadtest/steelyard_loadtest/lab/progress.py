"""Tells how far a comparison is: one line that changes on a terminal, a line a cell elsewhere."""

import time
from typing import TextIO

from steelyard_loadtest.lab.schedule import shown


class Progress:
    """Progress on `stream` through work that was expected to take expected_s in all."""

    def __init__(self, stream: TextIO, cells: int, expected_s: float) -> None:
        self._stream, self._cells, self._expected_s = stream, cells, expected_s
        self._live = stream.isatty()
        self._began_s = time.monotonic()
        self._done, self._done_s = 0, 0.0

    def begin(self, what: str) -> None:
        """Show what is measured now, and the time left at the pace so far."""
        spent_s = time.monotonic() - self._began_s
        # At first the pace is what was expected; a machine that is slower shows after some cells.
        pace = spent_s / self._done_s if self._done > 2 and self._done_s > 0 else 1.0
        left = shown((self._expected_s - self._done_s) * pace)
        text = f"{self._done + 1} of {self._cells} · {left} left · {what}"
        self._stream.write(f"\r\x1b[K{text}" if self._live else text)
        self._stream.flush()

    def end(self, result: str, expected_s: float) -> None:
        """Show what came out of a cell that was expected to take so long."""
        self._done += 1
        self._done_s += expected_s
        self._stream.write(f" · {result}" if self._live else f" · {result}\n")
        self._stream.flush()

    def say(self, text: str) -> None:
        """Show a line by itself."""
        self._stream.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """End the line."""
        self._stream.write("\r\x1b[K" if self._live else "")
        self._stream.flush()
