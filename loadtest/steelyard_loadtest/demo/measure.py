"""Runs one phase: load, a burn in the middle third, an observation of the servers each second."""

import contextlib
import time
from pathlib import Path

from steelyard_loadtest.demo import reach
from steelyard_loadtest.demo.load import Load
from steelyard_loadtest.demo.options import Plan
from steelyard_loadtest.demo.progress import Progress
from steelyard_loadtest.demo.reach import ClusterError
from steelyard_loadtest.demo.records import Observed, Phase, parse_sent, parse_weights

TICK_S = 0.1
POLL_TIMEOUT_S = 0.8  # an observation that takes longer is a gap, not a delay of the next one
BURN_WORKERS = 2  # against one busy thread of the server they leave it about a third of its CPU
BURN_SPARE_S = 10  # burners that nobody stops end by themselves


class Run:
    """A phase under way. `run` gives what was measured, also when it was interrupted: see `ended_by`."""

    def __init__(self, plan: Plan, base_url: str, weights_url: str, folder: Path, progress: Progress) -> None:
        self._plan = plan
        self._base_url = base_url
        self._weights_url = weights_url
        self._folder = folder
        self._progress = progress
        self._observed: list[Observed] = []
        self._burn_began_s: float | None = None
        self._burn_ended_s: float | None = None
        self.ended_by: KeyboardInterrupt | ClusterError | None = None

    def run(self) -> Phase | None:
        """Run the phase; None when it ended before it had begun."""
        load: Load | None = None
        began_s: float | None = None
        measured_s = 0.0
        try:
            self._progress.say(f"{self._plan.title}: starting {self._plan.users} users")
            load = Load(self._plan, self._base_url, self._folder)
            began_s = load.wait_until_running()
            self._measure(load, began_s)
        except (KeyboardInterrupt, ClusterError) as error:
            self.ended_by = error
        finally:
            if began_s is not None:
                measured_s = min(time.monotonic() - began_s, self._plan.seconds)
                self._stop_burning(measured_s)
            if load is not None:
                self._progress.say(f"{self._plan.title}: waiting for the requests under way")
                load.stop()
        if load is None or began_s is None:
            return None
        with load.requests_file.open(newline="") as lines:
            sent = parse_sent(lines, began_s)
        burn = None
        if self._burn_began_s is not None:
            burn = (self._burn_began_s, self._burn_ended_s or measured_s)
        return Phase(
            name=self._plan.name,
            title=self._plan.title,
            planned_s=self._plan.seconds,
            measured_s=measured_s,
            burn=burn,
            sent=tuple(entry for entry in sent if entry.t_s < measured_s),
            observed=tuple(self._observed),
        )

    def _measure(self, load: Load, began_s: float) -> None:
        next_poll_s = 0.0
        while (t_s := time.monotonic() - began_s) < self._plan.seconds:
            load.check()
            if self._burn_began_s is None and t_s >= self._plan.burn_from_s:
                self._start_burning(t_s)
            if self._burn_ended_s is None and t_s >= self._plan.burn_to_s:
                self._stop_burning(t_s)
            if t_s >= next_poll_s:
                self._observe(t_s)
                next_poll_s = max(next_poll_s + 1, t_s)
            burning = self._burn_began_s is not None and self._burn_ended_s is None
            self._progress.tick(self._plan, t_s, burning=burning, observed=self._observed)
            time.sleep(TICK_S)

    def _start_burning(self, t_s: float) -> None:
        self._burn_began_s = t_s
        seconds = round(self._plan.burn_to_s - self._plan.burn_from_s) + BURN_SPARE_S
        reach.burn(self._plan.burn_url, seconds=seconds, workers=BURN_WORKERS)

    def _stop_burning(self, t_s: float) -> None:
        if self._burn_began_s is not None and self._burn_ended_s is None:
            self._burn_ended_s = t_s
            reach.stop_burning(self._plan.burn_url)

    def _observe(self, t_s: float) -> None:
        with contextlib.suppress(OSError):
            answer = reach.call("GET", self._weights_url, POLL_TIMEOUT_S)
            self._observed += parse_weights(answer.json(), t_s)
