"""A run: every measurement in its turn, and what came of it, also when it was interrupted."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_loadtest.dataplane import measure
from steelyard_loadtest.dataplane.contenders import Contender
from steelyard_loadtest.dataplane.progress import Progress
from steelyard_loadtest.dataplane.records import Measured, Reweighed
from steelyard_loadtest.dataplane.rig import Rig
from steelyard_loadtest.dataplane.schedule import Step, steps
from steelyard_loadtest.dataplane.table import number
from steelyard_loadtest.dataplane.verdict import MANY
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.found import Found

AROUND_S = 4.0
"""What starting a proxy, warming it up and stopping it take, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured."""

    contenders: Sequence[Contender]
    peers: Sequence[int]
    rounds: int
    seconds: int
    connections: int
    reweigh_rounds: int


@dataclass(slots=True, kw_only=True)
class Results:
    """What there is so far; `missing` says by contender's title why something is not."""

    measured: list[Measured] = field(default_factory=list)
    reweighed: list[Reweighed] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def failed(self) -> int:
        """Requests that failed in all."""
        loads = [entry.load for entry in self.measured]
        loads += [load for entry in self.reweighed for load in (entry.before, entry.after)]
        return sum(load.failed for load in loads)


def run(plan: Plan, found: Found, folder: Path) -> Results:
    """Measure all of it; Ctrl-C ends it early. Raises SetupError when it cannot begin."""
    results = Results()
    here = _those_here(plan, found, results)
    costs = list(steps(here, plan.peers, plan.rounds))
    steered = [contender for contender in here if measure.can_be_reweighed(contender)]
    changes = list(steps(steered, [MANY], plan.reweigh_rounds))
    guess_s = AROUND_S + (plan.seconds if costs else measure.CHANGES * 2 * measure.WINDOW_S)
    progress = Progress(sys.stderr, len(costs) + len(changes), guess_s)
    try:
        rig = Rig(found, folder, connections=plan.connections)
        try:
            for step in costs:
                _attempt(step, progress, results, lambda step: _cost(rig, step, plan.seconds, results))
            for step in changes:
                _attempt(step, progress, results, lambda step: _change(rig, step, results))
        finally:
            rig.stop()
    except KeyboardInterrupt:
        results.interrupted = True
    progress.clear()
    return results


def _those_here(plan: Plan, found: Found, results: Results) -> list[Contender]:
    for contender in plan.contenders:
        why = found.why_missing(contender)
        if why is not None:
            results.missing[contender.title] = why
            print(f"not measured: {contender.title}: {why}", file=sys.stderr)
    return [contender for contender in plan.contenders if contender.title not in results.missing]


def _attempt(step: Step, progress: Progress, results: Results, work: Callable[[Step], str]) -> None:
    progress.begin(step)
    try:
        progress.end(work(step))
    except ProgramError as error:
        results.missing[f"{step.contender.title}, {step.peers} servers"] = str(error)
        progress.end(f"failed: {error}")


def _cost(rig: Rig, step: Step, seconds: int, results: Results) -> str:
    entry = measure.cost(rig, step, seconds)
    results.measured.append(entry)
    said = f"{number(entry.cpu_us_per_request)} µs CPU, {entry.load.requests_per_s:,.0f} requests/s"
    return said + (f", {entry.load.failed} FAILED" if entry.load.failed else "")


def _change(rig: Rig, step: Step, results: Results) -> str:
    entries = measure.change(rig, step)
    results.reweighed += entries
    pairs = (f"{entry.before.p99_ms:.2f} → {entry.after.p99_ms:.2f} ms" for entry in entries)
    return f"p99 {', '.join(pairs)}"
