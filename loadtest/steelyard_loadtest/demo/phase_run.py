"""Runs one phase: load by locust, a burn in the middle third, a look at the servers each second (I/O)."""

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_loadtest.demo import reach
from steelyard_loadtest.demo.phase_figures import describe
from steelyard_loadtest.demo.records import Observed, Phase, Plan, parse_weights, sent_within
from steelyard_loadtest.generators import LOCUST_USERS
from steelyard_loadtest.generators.job import FINISH_S, Task
from steelyard_loadtest.generators.load import Recorded
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.reporting.progress import Progress

TICK_S = 0.1
POLL_TIMEOUT_S = 0.8  # an observation that takes longer is a gap, not a delay of the next one
BURN_WORKERS = 2  # against one busy thread of the server they leave it about a third of its CPU
BURN_SPARE_S = 10  # burners that nobody stops end by themselves

START_S = 30.0  # locust imports for seconds on a busy machine


@dataclass(slots=True, kw_only=True)
class Run:
    """A phase under way. `run` gives what was measured, also when it was interrupted: see `ended_by`."""

    plan: Plan
    base_url: str
    weights_url: str
    folder: Path
    progress: Progress
    phases_left: int
    ended_by: KeyboardInterrupt | ProgramError | None = None
    _observed: list[Observed] = field(init=False, default_factory=list)
    _burn: list[float] = field(init=False, default_factory=list)  # when it began, and when it ended

    def run(self) -> Phase | None:
        """Run the phase; None when it ended before it had begun."""
        plan = self.plan
        load: Recorded | None = None
        began_s: float | None = None
        measured_s = 0.0
        try:
            self.progress.show(f"{plan.title}: starting {plan.users} users", always=True)
            load = self._start_load()
            began_s = load.wait(START_S)
            self._measure(load, began_s)
        except (KeyboardInterrupt, ProgramError) as error:
            self.ended_by = error
        finally:
            if began_s is not None:
                measured_s = min(time.monotonic() - began_s, plan.seconds)
                self._stop_burning(measured_s)
            if load is not None:
                self.progress.show(f"{plan.title}: waiting for the requests under way", always=True)
                # A second Ctrl-C does not wait.
                load.stop(patience_s=FINISH_S + 10)
        if load is None or began_s is None:
            return None
        return Phase(
            name=plan.name,
            title=plan.title,
            planned_s=plan.seconds,
            measured_s=measured_s,
            burn=(self._burn[0], self._burn[1]) if self._burn else None,
            sent=sent_within(load.requests(), began_s, measured_s),
            observed=tuple(self._observed),
        )

    def _start_load(self) -> Recorded:
        plan = self.plan
        task = Task(
            url=f"{self.base_url}{plan.path}",
            level=plan.users,
            seconds=plan.seconds,
            warm_up_s=0.0,
            user_rate_per_s=plan.rate / plan.users,
            folder=self.folder / f"locust-{plan.name}",
        )
        return Recorded(task, LOCUST_USERS, "locust")

    def _measure(self, load: Recorded, began_s: float) -> None:
        plan = self.plan
        burn_from_s, burn_to_s = plan.burn
        next_poll_s = 0.0
        while (t_s := time.monotonic() - began_s) < plan.seconds:
            if load.poll() and time.monotonic() - began_s < plan.seconds:
                raise ProgramError(f"locust ended: {load.child.last_words()}")
            if not self._burn and t_s >= burn_from_s:
                self._burn.append(t_s)
                seconds = round(burn_to_s - burn_from_s) + BURN_SPARE_S
                reach.burn(plan.burn_url, seconds=seconds, workers=BURN_WORKERS)
            if t_s >= burn_to_s:
                self._stop_burning(t_s)
            if t_s >= next_poll_s:
                with contextlib.suppress(OSError):
                    _, document = reach.call("GET", self.weights_url, POLL_TIMEOUT_S)
                    self._observed += parse_weights(document, t_s)
                next_poll_s = max(next_poll_s + 1, t_s)
            burning = len(self._burn) == 1
            self.progress.show(
                describe(plan, t_s, burning=burning, observed=self._observed, phases_left=self.phases_left)
            )
            time.sleep(TICK_S)

    def _stop_burning(self, t_s: float) -> None:
        if len(self._burn) == 1:
            self._burn.append(t_s)
            reach.stop_burning(self.plan.burn_url)
