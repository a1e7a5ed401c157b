"""Tells how far the soak is: one line that changes on a terminal, a line every ten seconds elsewhere."""

from collections.abc import Mapping
from typing import TextIO

from steelyard_loadtest.soak.growth import Growth
from steelyard_loadtest.soak.records import Soaked
from steelyard_loadtest.soak.wording import clock, grown

PLAIN_EVERY_S = 10.0


class Progress:
    """Progress of a soak on `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._live = stream, stream.isatty()
        self._next_s = 0.0

    def due(self, at_s: float) -> bool:
        """Say whether it is time for a line."""
        if not self._live and at_s < self._next_s:
            return False
        self._next_s = at_s + PLAIN_EVERY_S
        return True

    def say(self, text: str) -> None:
        """Show a line."""
        self._stream.write(f"\r\x1b[K{text}" if self._live else f"{text}\n")
        self._stream.flush()

    def done(self) -> None:
        """Clear the changing line."""
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def describe(soaked: Soaked, found: Mapping[str, Growth]) -> str:
    """Say in a line where the soak is, what failed, and which process's memory grew most so far."""
    at_s = soaked.overviews[-1].at_s if soaked.overviews else 0.0
    failed = sum(soaked.failures.values())
    parts = [
        f"{clock(at_s)} of {clock(soaked.seconds)}",
        f"{soaked.sent:,} requests, {failed:,} failed",
        f"{soaked.steps:,} steps" + (f", {len(soaked.refused):,} REFUSED" if soaked.refused else ""),
    ]
    if found:
        name, most = max(found.items(), key=lambda item: item[1].most)
        parts.append(f"most memory gained: {name} {grown('private memory', most.most)}")
    else:
        parts.append("warming up")
    return " · ".join(parts)
