"""Loads of programs that know no warm-up: a short run that nobody reads, then the one that counts."""

import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from steelyard_loadtest.lab.generators.child import Child
from steelyard_loadtest.lab.generators.children import Children
from steelyard_loadtest.lab.generators.job import Job
from steelyard_loadtest.lab.records import Outcome
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError

Started = TypeVar("Started", bound=Child | Children)

MORE_S = 60
"""The run before is asked for so much more than its time, and is killed when that is over."""


class TwoRuns(Generic[Started]):
    """One program, run twice. `run` starts it for so many seconds; `read` takes its figures.

    It may take end_s longer than its time. may_hang: when it is killed then, what it
    has written is of use all the same.
    """

    def __init__(
        self,
        job: Job,
        *,
        run: Callable[[float], Started],
        read: Callable[[Started], Outcome],
        end_s: float,
        may_hang: bool = False,
    ) -> None:
        self._job, self._run, self._read = job, run, read
        self._end_s, self._may_hang = end_s, may_hang
        self._began_s: float | None = None
        self._killed = False
        if job.warm_up_s > 0:
            self._child = run(job.warm_up_s + MORE_S)
        else:
            self._count()

    @property
    def began_s(self) -> float | None:
        """Return when the run that counts began; None before."""
        return self._began_s

    def poll(self) -> bool:
        """Say whether the second run has ended; begin it when it is time. Raises ProgramError."""
        over = self._child.ended()
        running_s = time.monotonic() - self._child.began_s
        if self._began_s is None and not self._killed:
            self._child.check()
            if running_s >= self._job.warm_up_s:
                self._child.stop()
                self._count()
            return False
        if not over and running_s > math.ceil(self._job.seconds) + self._end_s:
            self._kill()
            if not self._may_hang:
                raise ProgramError(f"{self._child.name} did not end {self._end_s:.0f} s after its time")
            over = True
        return over

    def stop(self) -> None:
        """End it at once."""
        self._may_hang = False
        self._kill()

    def outcome(self) -> Outcome:
        """Read the figures of the run that counts. Raises ProgramError."""
        if not (self._killed and self._may_hang):
            self._child.check()
        try:
            return self._read(self._child)
        except (OSError, UnreadableError) as error:
            raise ProgramError(f"{self._child.name}: {error}") from None

    def _kill(self) -> None:
        self._killed = True
        self._child.stop()

    def _count(self) -> None:
        self._child = self._run(self._job.seconds)
        self._began_s = self._child.began_s
