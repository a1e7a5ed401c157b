"""A run: every measurement in its turn, and what came of it, also when it was interrupted (I/O)."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steelyard_loadtest.dataplane.contenders import AFTER, BASE, BEFORE, BY_NAME, COST, steps
from steelyard_loadtest.dataplane.medians import CPU, MANY, P99, metrics
from steelyard_loadtest.dataplane.rig import Contender
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import Measured, Missing, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import number
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.definition import Load, Scenario
from steelyard_loadtest.trial import place_for

WINDOW_S = 5
"""Before and after a change of weights, each."""

THINKERS, THINK_MS = 16, 5
"""About 3000 requests/s: a tenth of what a proxy can do, so that a pause of it is seen as one."""

CHANGES = 2
"""There and back, so that a round ends with the weights that it began with."""

AROUND_S = 4.0
"""What starting a proxy, warming it up and stopping it take, about."""


def run(
    scenario: Scenario, peer_counts: Sequence[int], reweigh_rounds: int, programs: Programs, folder: Path
) -> Results:
    """Measure what a request costs, and then what changes of weights do; Ctrl-C ends it early.

    The scenario's servers are others at each number of servers. Raises SetupError when it cannot begin.
    """
    results = Results(scenarios=(scenario,))
    here = []
    for one in (BY_NAME[name] for name in scenario.algorithms):
        why = programs.why_missing(one.program, one.method)
        if why is None:
            here.append(one)
        else:
            results.missing.append(Missing(scenario=COST, algorithm=one.title, why=why))
            print(f"not measured: {one.title}: {why}", file=sys.stderr)
    costs = list(steps(here, peer_counts, scenario.load.repeats))
    # Those that take their weights from a table, and what they are held against.
    steered = [one for one in here if one.ours or one.name == BASE]
    changes = list(steps(steered, [MANY], reweigh_rounds, BEFORE))
    total = len(costs) + len(changes)
    guess_s = AROUND_S + (scenario.load.seconds if costs else CHANGES * 2 * WINDOW_S)
    # Tables come from Memcached, where there is one, and from no controller.
    place = replace(place_for(scenario, folder, programs), redis_port=0, api_port=0, agent_check_port=0)
    place = place if programs.memcached else replace(place, memcached_port=0)
    with Progress(sys.stderr, steps=total, expected_s=total * guess_s) as progress:
        try:
            with Servers(scenario, place) as servers:
                for step in costs + changes:
                    title, before = BY_NAME[step.algorithm].title, f"{step.level:g} servers"
                    progress.begin(f"round {step.repeat}, {before}, {title}")
                    try:
                        entries = _measure(step, scenario, servers, place)
                    except (ProgramError, SetupError) as error:
                        name = f"{title}, {before}"
                        results.missing.append(Missing(scenario=COST, algorithm=name, why=str(error)))
                        progress.end(f"failed: {error}")
                    else:
                        results.measured += entries
                        progress.end(_told(entries))
        except KeyboardInterrupt:
            results.interrupted = True
    return results


def _measure(step: Trial, scenario: Scenario, servers: Servers, place: Place) -> list[Measured]:
    load = scenario.load
    with Contender(step, scenario, servers, place) as contender:
        contender.warm_up(step)
        if step.scenario != COST:
            return _changes(contender, step, replace(load, levels=(THINKERS,), seconds=WINDOW_S))
        entry, front = contender.load(step, load), contender.front
        return [replace(entry, balancer_resident_bytes=front.process.resident_bytes() if front else None)]


def _changes(contender: Contender, step: Trial, load: Load) -> list[Measured]:
    """Change all weights under load, there and back; nginx's own are left alone."""
    entries = []
    for repeat in range(CHANGES * (step.repeat - 1) + 1, CHANGES * step.repeat + 1):
        for when in (BEFORE, AFTER):
            if when == AFTER:
                contender.reweigh()
            entries.append(contender.load(replace(step, scenario=when, repeat=repeat), load, THINK_MS))
        contender.wait_for_table()
    return entries


def _told(entries: Sequence[Measured]) -> str:
    """Write what was measured for the progress line."""
    known = [metrics(entry) for entry in entries]
    if entries[0].trial.scenario == COST:
        failures = entries[0].outcome.failures
        said = f"{number(known[0].get(CPU), 1)} µs CPU, {known[0]['requests_per_s']:,.0f} requests/s"
        return said + (f", {failures} FAILED" if failures else "")
    p99_ms = [number(one.get(P99), 2) for one in known]
    return "p99 " + ", ".join(f"{old} → {new} ms" for old, new in zip(p99_ms[::2], p99_ms[1::2], strict=True))
