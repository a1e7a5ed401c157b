"""Tells how far a run is: a bar and one changing line on a terminal, plain lines elsewhere (rich).

with Progress(sys.stderr, steps=12, expected_s=600) as progress:
    progress.begin("round 1, nginx SWRR")
    progress.end("41.3 µs a request")
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from steelyard_loadtest.reporting.wording import duration

PLAIN_EVERY_S = 10.0
"""Between two plain lines of one step: a log of an hour has 360 of them."""

SURE_AFTER_STEPS = 2
"""Until then the time left is what was expected; later a machine that is slower shows."""


class Progress(AbstractContextManager["Progress"]):
    """Progress on a stream through so many steps; without `steps`, only lines.

    It starts no thread (rich would refresh from one), so that processes can be forked meanwhile.
    title: of a bar, which is drawn then. quiet: write nothing but `say` where there is no terminal.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        steps: int | None = None,
        expected_s: float | None = None,
        title: str = "",
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._steps, self._expected_s = stream, steps, expected_s
        self._title, self._quiet, self._clock = title, quiet, clock
        self._began_s = clock()
        self._done, self._done_s = 0, 0.0
        self._open = False  # a plain line whose end is still to come
        self._plain_at_s = -PLAIN_EVERY_S
        self._live: Bar | None = None
        if stream.isatty():
            columns = [TextColumn("{task.description}", markup=False)]
            self._live = Bar(
                *([BarColumn(bar_width=24)] if title else []), *columns,
                console=Console(file=stream, force_terminal=True), transient=True, auto_refresh=False,
            )  # fmt: skip
            self._task = self._live.add_task("", total=steps)
            self._live.start()

    def begin(self, what: str) -> None:
        """Show which step is under way, its number, and the time left."""
        text = f"{self._done + 1} of {self._steps} · {self.left()} left · {what}"
        if self._live:
            self._draw(self._live, text)
        elif not self._quiet:
            self._write(text, still_open=True)

    def end(self, result: str = "", *, expected_s: float | None = None, keep: bool = False) -> None:
        """Count one step more, which was expected to take so long.

        Where there is no terminal its result ends the step's line; keep: a terminal keeps a line of it too.
        """
        self._done += 1
        each_s = (self._expected_s or 0.0) / self._steps if self._steps else 0.0
        self._done_s += each_s if expected_s is None else expected_s
        if self._open:
            self._write(f" · {result}\n")
        elif keep or (self._live is None and result and not self._quiet):
            self.say(f"{self._done} of {self._steps} · {result}")
        else:
            left = f"{self.left()} left" if self._done < (self._steps or 0) else ""
            count = f"{self._title} {self._done}/{self._steps}".lstrip()
            self.show(" · ".join(part for part in (count, left, result) if part))

    def show(self, text: str, *, always: bool = False) -> None:
        """Show a line that the next one replaces; a plain one at most every ten seconds, unless `always`."""
        if self._live:
            self._draw(self._live, text)
        elif not self._quiet and (always or self._clock() - self._plain_at_s >= PLAIN_EVERY_S):
            if not always:
                self._plain_at_s = self._clock()
            self.say(text)

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._live:
            self._live.console.print(Text(text), soft_wrap=True)
        else:
            self._write(f"\n{text}\n" if self._open else f"{text}\n")

    def left(self) -> str:
        """Write the time left: at the pace of the steps so far, at first as was expected."""
        spent_s = self._clock() - self._began_s
        if self._steps is None:
            return ""
        if self._expected_s is not None:
            sure = self._done > SURE_AFTER_STEPS and self._done_s > 0
            return duration((self._expected_s - self._done_s) * (spent_s / self._done_s if sure else 1.0))
        return duration(spent_s / self._done * (self._steps - self._done)) if self._done else "unknown time"

    def __exit__(self, *_: object) -> None:
        """Clear the changing line, or end the open one."""
        if self._live:
            self._live.stop()
        elif self._open:
            self._write("\n")

    def _write(self, text: str, *, still_open: bool = False) -> None:
        self._stream.write(text)
        self._stream.flush()
        self._open = still_open

    def _draw(self, live: Bar, text: str) -> None:
        live.update(self._task, completed=self._done, description=text)
        live.refresh()
