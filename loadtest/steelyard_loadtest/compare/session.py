"""A comparison: every scenario, every algorithm, every cell, and what came of it, also when it was ended."""

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_loadtest.compare import generators
from steelyard_loadtest.compare.algorithms import BY_NAME
from steelyard_loadtest.compare.cell import Visit, measure
from steelyard_loadtest.compare.records import Cell, Measured, Missing
from steelyard_loadtest.compare.rig import balancers
from steelyard_loadtest.compare.rig.balancers import Balancer
from steelyard_loadtest.compare.rig.place import Place
from steelyard_loadtest.compare.rig.servers import Servers
from steelyard_loadtest.compare.scenario.definition import Scenario
from steelyard_loadtest.compare.schedule import START_S, cell_s, visits
from steelyard_loadtest.compare.store import Store
from steelyard_loadtest.machine import network
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import Found
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import duration

CHECKOUT = Path(__file__).resolve().parents[3]

DAEMON_PORTS = 5


@dataclass(slots=True)
class Gathered:
    """What there is so far; means: by scenario, how the servers' limits were held."""

    measured: list[Measured] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    means: dict[str, str] = field(default_factory=dict)
    new: int = 0
    """Cells that were measured now, and not by an earlier run into the same folder."""
    interrupted: bool = False


def run(scenarios: Sequence[Scenario], store: Store, found: Found, gathered: Gathered) -> None:
    """Measure what the store has not got; Ctrl-C ends it early. Raises SetupError."""
    for scenario in scenarios:
        store.begin(scenario)
    network.raise_files()
    cells, expected_s = 0, 0.0
    for scenario in scenarios:
        for _, visit in visits(scenario, scenario.algorithms):
            new = sum(store.load(cell) is None for cell in visit)
            cells += new
            expected_s += new * cell_s(scenario.load) + (START_S if new else 0)
    with Progress(sys.stderr, steps=cells, expected_s=expected_s) as progress:
        progress.say(f"{cells} cells to measure, about {duration(expected_s)}")
        try:
            for scenario in scenarios:
                _measure(scenario, store, found, gathered, progress)
        except KeyboardInterrupt:
            gathered.interrupted = True


def _measure(scenario: Scenario, store: Store, found: Found, gathered: Gathered, progress: Progress) -> None:
    here = _those_here(scenario, found, gathered, progress)
    gathered.measured += store.all(scenario.name)
    done = {entry.cell for entry in gathered.measured}
    new = [(name, [cell for cell in cells if cell not in done]) for name, cells in visits(scenario, here)]
    todo = [(name, cells) for name, cells in new if cells]
    if not todo:
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-lab-") as folder:
        place = place_for(scenario, Path(folder), found)
        with Servers(scenario, place) as servers:
            gathered.means[scenario.name] = servers.means
            progress.say(f"{scenario.name}: {len(scenario.servers)} servers are up; {servers.means}")
            rates = {}
            if scenario.load.of_capacity:
                capacity = servers.capacity_per_s(scenario.path)
                progress.say(f"{scenario.name}: the servers can do {capacity:.0f} requests/s together")
                rates = {level: max(round(level * capacity, 1), 1.0) for level in scenario.load.levels}
            broken: set[str] = set()
            for name, cells in todo:
                if name in broken:
                    continue
                balancer = Balancer(BY_NAME[name], scenario, servers.addresses, place)
                visit = Visit(scenario=scenario, place=place, servers=servers, balancer=balancer, rates=rates)
                why = _visit(visit, cells, store, gathered, progress)
                if why is not None:
                    broken.add(name)
                    gathered.missing.append(Missing(scenario=scenario.name, algorithm=name, why=why))


def _visit(
    visit: Visit, cells: Sequence[Cell], store: Store, gathered: Gathered, progress: Progress
) -> str | None:
    """Measure one algorithm's cells; return why it cannot go on, or None."""
    load, title = visit.scenario.load, BY_NAME[cells[0].algorithm].title
    expected_s = cell_s(load) + START_S / len(cells)
    progress.begin(f"{visit.scenario.name}, {title}: starting")
    try:
        with visit.balancer:
            for number, cell in enumerate(cells):
                if number:
                    progress.begin(f"{visit.scenario.name}, {title}")
                entry = measure(visit, cell, first=number == 0)
                store.save(entry)
                gathered.measured.append(entry)
                gathered.new += 1
                progress.end(_told(entry), expected_s=expected_s)
                time.sleep(load.cool_down_s)
    except ProgramError as error:
        progress.end(f"failed: {error}", expected_s=expected_s)
        return str(error)
    return None


def _those_here(scenario: Scenario, found: Found, gathered: Gathered, progress: Progress) -> tuple[str, ...]:
    why = generators.why_missing(scenario.load.generator, found)
    if why is not None:
        raise SetupError(f"{scenario.name}: {scenario.load.generator} makes its load: {why}")
    reasons = {name: balancers.why_missing(BY_NAME[name], found) for name in scenario.algorithms}
    for name, reason in reasons.items():
        if reason is not None:
            gathered.missing.append(Missing(scenario=scenario.name, algorithm=name, why=reason))
            progress.say(f"{scenario.name}: {BY_NAME[name].title} is not measured: {reason}")
    return tuple(name for name, reason in reasons.items() if reason is None)


def place_for(scenario: Scenario, folder: Path, found: Found) -> Place:
    """Return the folder with a free port for each daemon and server."""
    ports = network.free_ports(DAEMON_PORTS + len(scenario.servers))
    memcached, redis, balancer, api, agent_check, *servers = ports
    return Place(
        folder=folder,
        checkout=CHECKOUT,
        found=found,
        memcached_port=memcached,
        redis_port=redis,
        balancer_port=balancer,
        api_port=api,
        agent_check_port=agent_check,
        server_ports=tuple(servers),
    )


def _told(entry: Measured) -> str:
    """Write a cell's result for the progress line."""
    outcome = entry.outcome
    p99 = next((point.ms for point in outcome.quantiles if point.part == 0.99), None)
    said = f"{entry.cell.level:g}: {outcome.requests / outcome.seconds:.0f} requests/s"
    said += "" if p99 is None else f", p99 {p99:.0f} ms"
    return said + (f", {outcome.failures} failed" if outcome.failures else "")


def conditions(gathered: Gathered) -> dict[str, str]:
    """Return how limits were held, one line where all scenarios agree."""
    means = list(dict.fromkeys(gathered.means.values()))
    if len(means) > 1:
        return {"Limits": "; ".join(f"{name}: {by}" for name, by in gathered.means.items())}
    return {"Limits": means[0]} if means else {}
