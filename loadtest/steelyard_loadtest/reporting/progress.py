"""Reports the progress of a run by lines that stay, on a terminal as in a file.

with Progress(sys.stderr, steps=12, expected_s=600) as progress:
    progress.begin("round 1, nginx SWRR")
    progress.end("41.3 µs a request")
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from steelyard_loadtest.reporting.wording import duration

PLAIN_EVERY_S = 10.0
"""Seconds between two lines of one step: a log of an hour has 360 of them."""

SURE_AFTER_STEPS = 2
"""Until this part, the time left is the expected one; later it follows the machine's own speed."""


class Progress(AbstractContextManager["Progress"]):
    """Progress on a stream through `steps` steps under a `title`; without `steps`, only lines."""

    def __init__(
        self,
        stream: TextIO,
        *,
        steps: int | None = None,
        expected_s: float | None = None,
        title: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._steps, self._expected_s = stream, steps, expected_s
        self._title, self._clock = title, clock
        self._began_s = clock()
        self._done, self._done_s = 0, 0.0
        self._open = False  # a line whose end is still to come
        self._shown_at_s = -PLAIN_EVERY_S

    def begin(self, what: str) -> None:
        """Begin the line of a step: its number, the time left, and its name."""
        self._write(f"{self._done + 1} of {self._steps} · {self.left()} left · {what}", still_open=True)

    def end(self, result: str = "", *, expected_s: float | None = None) -> None:
        """Count one more step, with its expected time; its result ends the step's line."""
        self._done += 1
        each_s = (self._expected_s or 0.0) / self._steps if self._steps else 0.0
        self._done_s += each_s if expected_s is None else expected_s
        if self._open:
            self._write(f" · {result}\n")
        else:
            left = f" · {self.left()} left" if self._done < (self._steps or 0) else ""
            self.show(f"{self._title} {self._done}/{self._steps}{left}".lstrip())

    def show(self, text: str, *, always: bool = False) -> None:
        """Write a line, at most every ten seconds unless `always`."""
        if always or self._clock() - self._shown_at_s >= PLAIN_EVERY_S:
            if not always:
                self._shown_at_s = self._clock()
            self.say(text)

    def say(self, text: str) -> None:
        """Write a line at any time."""
        self._write(f"\n{text}\n" if self._open else f"{text}\n")

    def left(self) -> str:
        """Return the time left: at the pace of the steps so far, at first as expected."""
        spent_s = self._clock() - self._began_s
        if self._steps is None:
            return ""
        if self._expected_s is not None:
            sure = self._done > SURE_AFTER_STEPS and self._done_s > 0
            return duration((self._expected_s - self._done_s) * (spent_s / self._done_s if sure else 1.0))
        return duration(spent_s / self._done * (self._steps - self._done)) if self._done else "unknown time"

    def __exit__(self, *_: object) -> None:
        """End the open line."""
        if self._open:
            self._write("\n")

    def _write(self, text: str, *, still_open: bool = False) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._open = still_open
