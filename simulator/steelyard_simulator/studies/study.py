"""Runs a study's trials with their seeds in processes of their own, with a bar (I/O).

What comes back does not depend on the number of processes: each run has its own seed, and results
are in the order of the work.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from typing import Protocol, TextIO, TypeVar

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.reporting.progress import Progress

from steelyard_simulator.model import Case, RunResult
from steelyard_simulator.run import run
from steelyard_simulator.studies.measures import Figures

C = TypeVar("C", bound="Trial")


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

    How far it is, and how fast the model ran, is written to the stream (stderr). Trials must be picklable and
    `figures_of` importable. An exception in a run is raised here, SetupError where a process was killed.
    """
    stream = stream or sys.stderr
    # One process a core that this one may run on.
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(work))
    runs: dict[C, list[Figures]] = {}
    events, cpu_s = 0, 0.0
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(stream, steps=len(work), title=title, bar=True))
        bar.show(f"{title} 0/{len(work)}")
        each = stack.enter_context(_processes(jobs)).map if jobs > 1 else map
        try:
            done = each(partial(_one, figures_of), work)
            for (trial, _), (figures, its_events, its_cpu_s) in zip(work, done, strict=True):
                runs.setdefault(trial, []).append(figures)
                events, cpu_s = events + its_events, cpu_s + its_cpu_s
                bar.end()
        except BrokenProcessPool as error:
            raise SetupError("a process was killed, as when memory runs out; try a smaller --jobs") from error
    rate = events / cpu_s if cpu_s > 0 else 0.0
    print(f"{events:,} events in {cpu_s:.1f} s of CPU: {rate:,.0f} events/s", file=stream)
    return runs


def _processes(jobs: int) -> ProcessPoolExecutor:
    # Forked, so that numpy and the laws are not imported again by each; nothing here has threads yet.
    fork = multiprocessing.get_context("fork")
    # Ctrl-C reaches every process of the terminal; one of them is enough to report it.
    end_silently = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return ProcessPoolExecutor(jobs, mp_context=fork, initializer=end_silently)


def _one(
    figures_of: Callable[[Case, RunResult], Figures], of: tuple[Trial, int]
) -> tuple[Figures, int, float]:
    trial, seed = of
    case = trial.case()
    result = run(case, seed)
    return figures_of(case, result), result.events, result.cpu_s
