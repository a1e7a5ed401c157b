"""Algorithms, levels, servers and events of a scenario in words; layout.toml is read once at import. Pure."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from steelyard_loadtest.figures.looks import looks
from steelyard_loadtest.reporting.statistics import Spread
from steelyard_loadtest.reporting.wording import number, plus_minus
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, BY_NAME, DEFAULT
from steelyard_loadtest.scenario.definition import Event, Load, Scenario, Server

LAYOUT: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("layout.toml").read_text(encoding="utf-8"))

LOOKS = looks(ALGORITHMS, strongest=DEFAULT)


def median(spread: Spread | None, digits: int | None = None) -> str:
    """Write the median."""
    return number(None if spread is None else spread.median, digits)


def with_sigma(spread: Spread | None, digits: int | None = None) -> str:
    """Write the median and, with repeats, the deviation with the same decimals."""
    return number(None) if spread is None else plus_minus(spread.median, spread.sigma, digits)


def title(algorithm: str) -> str:
    """Name an algorithm; the default law and picker have a mark."""
    return BY_NAME[algorithm].title + (" ★" if algorithm == DEFAULT else "")


def kind(algorithm: str) -> str:
    """Return the sort of an algorithm: the tables' second column."""
    known = BY_NAME[algorithm]
    if known.program == "direct":
        return "no balancer"
    if known.ours:
        return "ours"
    if known.informed:
        return "given weights" if known.weights == "true" else "given wrong weights"
    return "adapts" if known.adapts else "static"


def layout_of(load: Load) -> Mapping[str, Any]:
    """Return the layout for scenarios with such a load."""
    name = "own_connections" if load.own_connections else load.generator
    layout: Mapping[str, Any] = LAYOUT["generators"][name]
    return layout


def level(load: Load, value: float) -> str:
    """Write a level with its unit."""
    if load.of_capacity:
        return f"{value * 100:g} % of capacity"
    return f"{value:g} {layout_of(load)['unit']}"


def level_unit(load: Load) -> str:
    """Return the unit of levels."""
    return "% of capacity" if load.of_capacity else layout_of(load)["unit"]


def level_number(load: Load, value: float) -> str:
    """Write a level without its unit."""
    return f"{value * 100:g}" if load.of_capacity else f"{value:g}"


def load_text(load: Load) -> str:
    """Describe a scenario's load."""
    levels = ", ".join(level_number(load, value) for value in load.levels)
    times = f"{load.repeats} × {load.seconds:g} s" if load.repeats > 1 else f"{load.seconds:g} s"
    warm_up = f"after {load.warm_up_s:g} s of warm-up"
    return f"{layout_of(load)['loop']}. {levels} {level_unit(load)}; {times} each, {warm_up}"


def servers_text(scenario: Scenario) -> str:
    """Describe the servers, equal ones together."""
    if scenario.static:
        return "one nginx that answers at once"
    groups = groupby(scenario.servers, key=lambda server: ", ".join(_abilities(server)))
    return listed([f"{_names(list(servers))}: {text}" for text, servers in groups])


def events_text(scenario: Scenario) -> str:
    """Describe the events of a trial."""
    return listed([*map(event_text, scenario.events)]) or "none"


def listed(parts: Sequence[str]) -> str:
    """Write two parts in a row, and more as a list within a list's item."""
    return "; ".join(parts) if len(parts) <= 2 else "".join(f"\n  - {part}" for part in parts)


def event_text(event: Event) -> str:
    """Describe an event."""
    when = f"{event.at_s:g} to {event.at_s + event.for_s:g} s"
    if event.do == "hold":
        return f"{when}: {event.workers} of {event.server}'s workers are held, without CPU"
    if event.do == "burn":
        part = "" if event.part is None else f"up to {event.part * 100:g} % of "
        processes = "1 process" if event.workers == 1 else f"{event.workers} processes"
        return f"{when}: a neighbour takes {part}{event.server}'s CPU ({processes})"
    if event.do == "spin":
        return f"{when}: {event.server} waits busily, so that all of its CPU is used"
    if event.do == "fail":
        return f"{when}: {event.server} answers with an error at once"
    if event.do == "cold":
        return f"{event.at_s:g} s: {event.server}'s cache of {event.entries} entries is empty"
    if event.do == "slow":
        return f"{when}: {event.server} answers {event.ms} ms later, without being busy"
    return f"{event.at_s:g} s: {event.server} {'leaves' if event.do == 'leave' else 'joins'}"


def command(scenario: Scenario) -> str:
    """Write the command that measures a scenario again."""
    return f"steelyard-loadtest compare {scenario.name}{' --quick' if scenario.quick else ''}"


def _names(servers: Sequence[Server]) -> str:
    first, last = servers[0].name, servers[-1].name
    return (
        first if len(servers) == 1 else f"{first} and {last}" if len(servers) == 2 else f"{first} to {last}"
    )


def _abilities(server: Server) -> Iterator[str]:
    yield "no CPU limit" if server.cpu_cores is None else f"{server.cpu_cores:g} cores"
    if server.paced:
        yield "held by pauses"
    if server.drift:
        drift = server.drift
        yield f"drifting by {drift.by * 100:g} % every {drift.period_s:g} s from phase {drift.phase:g} on"
    if server.takeover:
        yield f"from {server.takeover.at_s:g} s on another server of {server.takeover.cpu_cores:g} cores"
    yield f"weight {server.weight}"
    if server.delay_ms:
        yield f"answers {server.delay_ms:g} ms late"
    if server.disk_ops_per_s is not None:
        yield f"{server.disk_ops_per_s:g} disk operations/s"
    if server.workers is not None:
        yield f"{server.workers} workers"
