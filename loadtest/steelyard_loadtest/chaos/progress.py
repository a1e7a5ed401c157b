"""Tells how far a run is: a line a fault, as soon as it is over."""

from typing import TextIO

from steelyard_loadtest.chaos import wording
from steelyard_loadtest.chaos.model import Fault, Outcome


class Progress:
    """Progress through so many faults, on `stream`; a terminal shows the one that is under way."""

    def __init__(self, stream: TextIO, faults: int) -> None:
        self._stream, self._faults = stream, faults
        self._live = stream.isatty()
        self._done = 0

    def staging(self, *, faketime: bool) -> None:
        """Say that the cluster is started."""
        self._show(f"starting the cluster{' with clocks that can be stepped' if faketime else ''}")

    def begin(self, fault: Fault) -> None:
        """Show what is done now."""
        self._show(f"{self._done + 1} of {self._faults} · {fault.name}")

    def end(self, result: Outcome) -> None:
        """Show what came out, and each bound that was broken."""
        self._done += 1
        self._clear()
        self._stream.write(f"{self._done} of {self._faults} · {result.fault} · {wording.line(result)}\n")
        for text in result.broken:
            self._stream.write(f"    {text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """End the line."""
        self._clear()
        self._stream.flush()

    def _show(self, text: str) -> None:
        if self._live:
            self._clear()
            self._stream.write(text)
            self._stream.flush()

    def _clear(self) -> None:
        self._stream.write("\r\x1b[K" if self._live else "")
