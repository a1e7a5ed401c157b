"""The load report that each answer carries: the newest ORCA value, from the file that the agent keeps."""

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from steelyard_loadtest.server.orca import HEADER, with_rate

READ_EVERY_S = 0.25
"""The agent writes once a second or so; a file read for every request would cost more than the request."""

WINDOW_S = 1.0
"""The agent's own interval: both parts of the report then speak of about the same time."""


class LoadReport:
    """A header's name and value, read again at most every READ_EVERY_S.

    `answered` tells how many requests were answered so far; `clock` is monotonic.
    """

    def __init__(
        self, file: Path, answered: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._answered, self._clock = file, answered, clock
        self._seen: deque[tuple[float, int]] = deque()
        self._header: tuple[bytes, bytes] | None = None

    def header(self) -> tuple[bytes, bytes] | None:
        """Return the header; None while there is no file, or it does not hold an agent's value."""
        now_s = self._clock()
        if not self._seen or now_s - self._seen[-1][0] >= READ_EVERY_S:
            value = with_rate(self._text(), self._rate_per_s(now_s))
            self._header = (HEADER.encode(), value.encode()) if value else None
        return self._header

    def _rate_per_s(self, now_s: float) -> float | None:
        self._seen.append((now_s, self._answered()))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None

    def _text(self) -> str:
        try:
            return self._file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return ""
