"""Runs one function over many arguments in processes of their own, in order, with a progress bar.

What comes back does not depend on the number of processes: each run has its own seed, and results
are in the order of the arguments.
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TextIO, TypeVar

from steelyard_loadtest.machine.errors import SetupError

A = TypeVar("A")
R = TypeVar("R")

BAR = 24
# A bar that moves more often than this only costs.
REFRESH_S = 1.0


def processes(asked: int | None = None) -> int:
    """Return how many processes to use: as asked, or one a core that this process may run on."""
    return asked or len(os.sched_getaffinity(0))


def mapped(
    function: Callable[[A], R],
    arguments: Sequence[A],
    *,
    jobs: int,
    title: str = "",
    stream: TextIO | None = None,
) -> list[R]:
    """Return `function` of each argument, in order; the bar is drawn on `stream` if it is a terminal.

    `function` must be importable, arguments and results picklable. An exception in one of them is
    raised here, SetupError where a process was killed; Ctrl-C stops all.
    """
    bar = _Bar(stream if stream is not None and stream.isatty() else None, title, len(arguments))
    try:
        return list(_results(function, arguments, min(jobs, len(arguments)), bar))
    except BrokenProcessPool as error:
        raise SetupError("a process was killed, as when memory runs out; try a smaller --jobs") from error
    finally:
        bar.clear()


def _results(function: Callable[[A], R], arguments: Sequence[A], jobs: int, bar: "_Bar") -> Iterator[R]:
    bar.show(0)
    if jobs <= 1:
        for done, argument in enumerate(arguments, start=1):
            yield function(argument)
            bar.show(done)
        return
    # Forked, so that numpy and the laws are not imported again by each; nothing here has threads yet.
    with ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context("fork"), initializer=_end_without_a_word
    ) as pool:
        futures = [pool.submit(function, argument) for argument in arguments]
        try:
            _watch(futures, bar)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        yield from (future.result() for future in futures)


def _end_without_a_word() -> None:
    """Ctrl-C reaches every process of the terminal; one of them is enough to report it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _watch(futures: "Sequence[Future[R]]", bar: "_Bar") -> None:
    left = set(futures)
    while left:
        done, left = wait(left, timeout=REFRESH_S, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        bar.show(len(futures) - len(left))


class _Bar:
    """One line that is drawn over; nothing where there is no stream."""

    def __init__(self, stream: TextIO | None, title: str, total: int) -> None:
        self._stream, self._title, self._total = stream, title, total
        self._began_s = time.monotonic()

    def show(self, done: int) -> None:
        if self._stream is None or self._total == 0:
            return
        full = BAR * done // self._total
        spent_s = time.monotonic() - self._began_s
        left = f" · {_clock(spent_s * (self._total - done) / done)} left" if 0 < done < self._total else ""
        line = f"{self._title} [{'#' * full}{'.' * (BAR - full)}] {done}/{self._total}{left}"
        self._stream.write(f"\r\x1b[K{line}")
        self._stream.flush()

    def clear(self) -> None:
        if self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
