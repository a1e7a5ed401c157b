"""A comparison: every scenario, every algorithm, every trial, and its results, also if interrupted."""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from steelyard_loadtest import generators
from steelyard_loadtest.compare.schedule import START_S, trial_s, visits
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.capacity import Capacity
from steelyard_loadtest.measurements.trials import Measured, Missing, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import duration
from steelyard_loadtest.rig import balancers
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.trial import RunningSetup, measure, place_for


def run(results: Results, store: Store, programs: Programs) -> None:
    """Measure the trials that the store lacks; Ctrl-C ends it early. Raises SetupError."""
    scenarios = results.scenarios
    for scenario in scenarios:
        store.begin(scenario)
    network.raise_files()
    trials, expected_s = 0, 0.0
    for scenario in scenarios:
        for _, visit in visits(scenario, scenario.algorithms):
            new = sum(store.load(trial) is None for trial in visit)
            trials += new
            expected_s += new * trial_s(scenario.load) + (START_S if new else 0)
    with Progress(sys.stderr, steps=trials, expected_s=expected_s) as progress:
        progress.say(f"{trials} trials to measure, about {duration(expected_s)}")
        try:
            for scenario in scenarios:
                _measure(scenario, store, programs, results, progress)
        except KeyboardInterrupt:
            results.interrupted = True


def _measure(
    scenario: Scenario, store: Store, programs: Programs, results: Results, progress: Progress
) -> None:
    here = _those_here(scenario, programs, results, progress)
    results.measured += store.all(scenario.name)
    if scenario.load.of_capacity and (known := store.capacity(scenario)):
        results.capacities[scenario.name] = known
    done = {entry.trial for entry in results.measured}
    new = [
        (name, [trial for trial in trials if trial not in done]) for name, trials in visits(scenario, here)
    ]
    todo = [(name, trials) for name, trials in new if trials]
    if not todo:
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-lab-") as folder:
        place = place_for(scenario, Path(folder), programs)
        with Servers(scenario, place) as servers:
            results.limits.append(servers.means)
            progress.say(f"{scenario.name}: {len(scenario.servers)} servers are up; {servers.means}")
            rates = {}
            if scenario.load.of_capacity:
                capacity = capacity_of(scenario, store, servers, progress)
                results.capacities[scenario.name] = capacity
                rates = capacity.rates(scenario.load.levels)
            broken: set[str] = set()
            for name, trials in todo:
                if name in broken:
                    continue
                balancer = Balancer(BY_NAME[name], scenario, servers.addresses, place)
                setup = RunningSetup(
                    scenario=scenario, place=place, servers=servers, balancer=balancer, rates=rates
                )
                why = _visit(setup, trials, store, results, progress)
                if why is not None:
                    broken.add(name)
                    results.missing.append(Missing(scenario=scenario.name, algorithm=name, why=why))


class MeasuringServers(Protocol):
    """Servers whose capacity can be measured."""

    def capacity(self, path: str) -> Capacity:
        """Measure it for requests to `path`. Raises SetupError."""


def capacity_of(scenario: Scenario, store: Store, servers: MeasuringServers, progress: Progress) -> Capacity:
    """Return the capacity of the folder's trials; measure and keep it, if there are none yet.

    Trials of one folder are compared, so that their loads have to be parts of the same capacity. Raises
    SetupError.
    """
    known = store.capacity(scenario)
    capacity = known or servers.capacity(scenario.path)
    store.keep_capacity(scenario, capacity)
    progress.say(f"{scenario.name}: capacity {capacity}{', as before' if known else ''}")
    return capacity


def _visit(
    setup: RunningSetup, trials: Sequence[Trial], store: Store, results: Results, progress: Progress
) -> str | None:
    """Measure one algorithm's trials; return why it cannot go on, or None."""
    load, title = setup.scenario.load, BY_NAME[trials[0].algorithm].title
    expected_s = trial_s(load) + START_S / len(trials)
    progress.begin(f"{setup.scenario.name}, {title}: starting")
    try:
        with setup.balancer:
            for number, trial in enumerate(trials):
                if number:
                    progress.begin(f"{setup.scenario.name}, {title}")
                entry = measure(setup, trial, first=number == 0)
                store.save(entry)
                results.measured.append(entry)
                results.new += 1
                if results.new == 1:
                    store.note(results.conditions)
                progress.end(_summary(entry), expected_s=expected_s)
                time.sleep(load.cool_down_s)
    except ProgramError as error:
        progress.end(f"failed: {error}", expected_s=expected_s)
        return str(error)
    return None


def _those_here(
    scenario: Scenario, programs: Programs, results: Results, progress: Progress
) -> tuple[str, ...]:
    why = generators.why_missing(scenario.load.generator, programs)
    if why is not None:
        raise SetupError(f"{scenario.name}: {scenario.load.generator} makes its load: {why}")
    reasons = {name: balancers.why_missing(BY_NAME[name], programs) for name in scenario.algorithms}
    for name, reason in reasons.items():
        if reason is not None:
            results.missing.append(Missing(scenario=scenario.name, algorithm=name, why=reason))
            progress.say(f"{scenario.name}: {BY_NAME[name].title} is not measured: {reason}")
    return tuple(name for name, reason in reasons.items() if reason is None)


def _summary(entry: Measured) -> str:
    """Write a trial's result for the progress line."""
    outcome = entry.outcome
    p99 = next((point.ms for point in outcome.quantiles if point.part == 0.99), None)
    text = f"{entry.trial.level:g}: {outcome.requests / outcome.seconds:.0f} requests/s"
    text += "" if p99 is None else f", p99 {p99:.0f} ms"
    return text + (f", {outcome.failures} failed" if outcome.failures else "")
