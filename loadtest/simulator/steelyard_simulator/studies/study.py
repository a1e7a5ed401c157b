"""Runs a study's trials with their seeds in separate processes, with a progress bar (I/O).

Results do not depend on the number of processes: each run has its own seed, and results are in the order of
the work.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, TextIO, TypeVar

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.reporting.progress import PLAIN_EVERY_S, Progress
from steelyard_loadtest.reporting.wording import duration

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Figures

C = TypeVar("C", bound="Trial")

Run = tuple[Figures, int, float]
"""A run's figures, the events of the model, and the seconds of CPU."""


class Trial(Protocol):
    """One point of a study."""

    def case(self) -> Case:
        """Return its simulation."""


def simulated(
    work: Sequence[tuple[C, int]],
    figures_of: Callable[[Case, RunResult], Figures],
    *,
    jobs: int | None,
    title: str,
    around: Callable[[C], AbstractContextManager[Any]] = nullcontext,
    stream: TextIO | None = None,
    beat_s: float = PLAIN_EVERY_S,
) -> dict[C, list[Figures]]:
    """Run each trial with each seed; return the trials' figures in the order of the work.

    A run is within the context that `around` returns for its trial. Progress and the model's speed are
    written to the stream (stderr). After each `beat_s` without a finished run, a line says how many are under
    way. Trials must be picklable, `figures_of` and `around` importable. An exception in a run is raised here,
    and SetupError if a process was killed.
    """
    stream = stream or sys.stderr
    # One process for each core that this process may use.
    jobs = max(1, min(jobs or len(os.sched_getaffinity(0)), len(work)))
    with Progress(stream, steps=len(work), title=title) as bar, processes(jobs) as pool:
        bar.show(f"{title} 0/{len(work)}")
        futures = [pool.submit(_one, figures_of, around, each) for each in work]
        try:
            _wait(futures, bar, title=title, jobs=jobs, beat_s=beat_s)
        except BrokenProcessPool as error:
            raise SetupError("a process was killed, as when memory runs out; try a smaller --jobs") from error
        except Exception:
            for future in futures:
                future.cancel()
            raise
    runs: dict[C, list[Figures]] = {}
    events, cpu_s = 0, 0.0
    for (trial, _), future in zip(work, futures, strict=True):
        figures, its_events, its_cpu_s = future.result()
        runs.setdefault(trial, []).append(figures)
        events, cpu_s = events + its_events, cpu_s + its_cpu_s
    rate = events / cpu_s if cpu_s > 0 else 0.0
    print(f"{events:,} events in {cpu_s:.1f} s of CPU: {rate:,.0f} events/s", file=stream)
    return runs


def _wait(futures: Sequence[Future[Run]], bar: Progress, *, title: str, jobs: int, beat_s: float) -> None:
    """Wait until all have ended, in any order, with progress; raise a run's exception."""
    left = set(futures)
    idle_s = 0.0
    while left:
        ended, left = wait(left, timeout=beat_s, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()
            bar.end()
        idle_s = 0.0 if ended else idle_s + beat_s
        if not ended:
            # The largest come first, so a study's first minutes would otherwise show no progress.
            under_way = f"{min(jobs, len(left))} under way, none has ended for {duration(idle_s)}"
            bar.show(f"{title} {len(futures) - len(left)}/{len(futures)} · {under_way}", always=True)


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool whose processes end without a word at ctrl-C."""
    # Forked, so that numpy and the laws are not imported again in each; no thread runs yet.
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=fork, initializer=_end_silently) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            # Leaving the pool waits for its runs, and one of them may take minutes.
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _end_silently() -> None:
    # Ctrl-C and `timeout` signal the whole process group; the parent reports it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _one(
    figures_of: Callable[[Case, RunResult], Figures],
    around: Callable[[C], AbstractContextManager[Any]],
    of: tuple[C, int],
) -> Run:
    trial, seed = of
    case = trial.case()
    with around(trial):
        result = run(case, seed)
    return figures_of(case, result), result.events, result.cpu_s
