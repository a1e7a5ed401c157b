"""Runs a study's trials with their seeds in processes of their own, with a bar (I/O).

What comes back does not depend on the number of processes: each run has its own seed, and results
are in the order of the arguments.
"""

import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Protocol, TextIO, TypeVar

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.reporting.progress import Progress

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Figures

A = TypeVar("A")
C = TypeVar("C", bound="Trial")
R = TypeVar("R")


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
    stream: TextIO | None = None,
) -> dict[C, list[Figures]]:
    """Run each trial with each seed; return the trials' figures in the order of the work.

    How fast the model ran is written to the stream (stderr). `figures_of` must be importable.
    """
    stream = stream or sys.stderr
    # One process a core that this one may run on.
    jobs = jobs or len(os.sched_getaffinity(0))
    done = mapped(partial(_one, figures_of), work, jobs=jobs, title=title, stream=stream)
    runs: dict[C, list[Figures]] = {}
    for (trial, _), (figures, _, _) in zip(work, done, strict=True):
        runs.setdefault(trial, []).append(figures)
    events, cpu_s = sum(events for _, events, _ in done), sum(cpu_s for _, _, cpu_s in done)
    rate = events / cpu_s if cpu_s > 0 else 0.0
    print(f"{events:,} events in {cpu_s:.1f} s of CPU: {rate:,.0f} events/s", file=stream)
    return runs


def _one(
    figures_of: Callable[[Case, RunResult], Figures], of: tuple[Trial, int]
) -> tuple[Figures, int, float]:
    trial, seed = of
    case = trial.case()
    result = run(case, seed)
    return figures_of(case, result), result.events, result.cpu_s


def mapped(
    function: Callable[[A], R],
    arguments: Sequence[A],
    *,
    jobs: int,
    title: str = "",
    stream: TextIO | None = None,
) -> list[R]:
    """Return `function` of each argument, in order; how far it is stands on `stream`.

    `function` must be importable, arguments and results picklable. An exception in one of them is
    raised here, SetupError where a process was killed; Ctrl-C stops all.
    """
    steps = len(arguments)
    jobs = min(jobs, steps)
    results: list[R] = []
    with Progress(stream or io.StringIO(), steps=steps, title=title, bar=True) as bar:
        bar.show(f"{title} 0/{steps}")
        if jobs <= 1:
            for argument in arguments:
                results.append(function(argument))
                bar.end()
            return results
        # Forked, so that numpy and the laws are not imported again by each; nothing here has threads yet.
        fork = multiprocessing.get_context("fork")
        # Ctrl-C reaches every process of the terminal; one of them is enough to report it.
        end_silently = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        try:
            with ProcessPoolExecutor(jobs, mp_context=fork, initializer=end_silently) as pool:
                futures = [pool.submit(function, argument) for argument in arguments]
                try:
                    for future in as_completed(futures):
                        future.result()
                        bar.end()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
                return [future.result() for future in futures]
        except BrokenProcessPool as error:
            raise SetupError("a process was killed, as when memory runs out; try a smaller --jobs") from error
