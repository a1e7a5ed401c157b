"""Tells how far the benchmark is: one line that changes on a terminal, a line a measurement elsewhere."""

import time
from typing import TextIO

from steelyard_loadtest.dataplane.schedule import Step, time_left


class Progress:
    """Progress of `total` measurements of about `guess_s` each, on `stream`."""

    def __init__(self, stream: TextIO, total: int, guess_s: float) -> None:
        self._stream, self._total, self._guess_s = stream, total, guess_s
        self._live = stream.isatty()
        self._began_s = time.monotonic()
        self._done = 0

    def begin(self, step: Step) -> None:
        """Show what is measured now, and the time left."""
        left = time_left(self._done, self._total, time.monotonic() - self._began_s, self._guess_s)
        where = f"round {step.round}, {step.peers} servers, {step.contender.title}"
        text = f"{self._done + 1} of {self._total} · {left} left · {where}"
        self._stream.write(f"\r\x1b[K{text}" if self._live else text)
        self._stream.flush()

    def end(self, result: str) -> None:
        """Show what came out."""
        self._done += 1
        self._stream.write(f" · {result}" if self._live else f" · {result}\n")
        self._stream.flush()

    def clear(self) -> None:
        """End the line."""
        self._stream.write("\r\x1b[K" if self._live else "")
        self._stream.flush()
