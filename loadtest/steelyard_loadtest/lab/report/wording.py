"""Figures, levels, servers and events in words. Pure."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from steelyard_loadtest.lab.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.lab.figures.summary import Spread
from steelyard_loadtest.lab.scenario.model import Event, Load, Scenario, Server

ABSENT = "–"
NEVER = "never"

LEVELS = {"locust": "users", "siege": "users", "wrk": "connections", "open": "requests/s"}
LOOPS = {
    "locust": "locust, a closed loop: a user sends its next request when it has the answer",
    "siege": "siege, a closed loop: a user sends its next request when it has the answer",
    "wrk": "wrk, a closed loop: a connection sends its next request when it has the answer",
    "open": "an open loop: requests leave at a constant rate whatever comes back, and latency counts from the"
    " moment when each was due (no coordinated omission)",
}


def number(value: float | None, digits: int | None = None) -> str:
    """Write a figure with about three digits that mean something, or with so many decimals."""
    if value is None:
        return ABSENT
    if math.isinf(value):
        return NEVER
    return f"{value:,.{_decimals(value) if digits is None else digits}f}"


def ratio(value: float | None) -> str:
    """Write a ratio with two decimals, or with as many as show on which side of 1 it is."""
    if value is None:
        return ABSENT
    digits = next((digits for digits in (2, 3, 4) if round(value, digits) != 1), 2)
    return f"{value:.{digits}f}"


def percent(part: float | None, digits: int = 1) -> str:
    """Write a part of 1 as a percentage; a small one is never written as none."""
    if part is None:
        return ABSENT
    least = 0.1**digits
    return f"<{least:g} %" if 0 < part * 100 < least / 2 else f"{part * 100:.{digits}f} %"


def median(spread: Spread | None, digits: int | None = None) -> str:
    """Write the median."""
    return number(None if spread is None else spread.median, digits)


def with_sigma(spread: Spread | None, digits: int | None = None) -> str:
    """Write the median and, with repeats, the deviation to as many decimals."""
    if spread is None or spread.sigma is None:
        return median(spread, digits)
    decimals = _decimals(spread.median) if digits is None else digits
    return f"{number(spread.median, decimals)} ± {number(spread.sigma, decimals)}"


def title(algorithm: str) -> str:
    """Name an algorithm; the default law and picker have a mark."""
    return BY_NAME[algorithm].title + (" ★" if algorithm == DEFAULT else "")


def kind(algorithm: str) -> str:
    """Say what sort of an algorithm it is: the tables' second column."""
    known = BY_NAME[algorithm]
    if known.program == "direct":
        return "no balancer"
    if known.ours:
        return "ours"
    if known.told:
        return "told weights" if known.weights == "true" else "told wrong weights"
    return "adapts" if known.adapts else "static"


def level(load: Load, value: float) -> str:
    """Write a level with its unit."""
    if load.of_capacity:
        return f"{value * 100:g} % of capacity"
    return f"{value:g} {LEVELS[load.generator]}"


def level_unit(load: Load) -> str:
    """Name what levels are counted in."""
    return "% of capacity" if load.of_capacity else LEVELS[load.generator]


def level_number(load: Load, value: float) -> str:
    """Write a level without its unit."""
    return f"{value * 100:g}" if load.of_capacity else f"{value:g}"


def load_text(load: Load) -> str:
    """Say how a scenario is loaded."""
    levels = ", ".join(level_number(load, value) for value in load.levels)
    times = f"{load.repeats} × {load.seconds:g} s" if load.repeats > 1 else f"{load.seconds:g} s"
    warm_up = f"after {load.warm_up_s:g} s of warm-up"
    return f"{LOOPS[load.generator]}; {levels} {level_unit(load)}; {times} each, {warm_up}"


def servers_text(scenario: Scenario) -> str:
    """Say what the servers are, those that are alike together."""
    if scenario.static:
        return "one nginx that answers at once"
    groups = groupby(scenario.servers, key=_abilities)
    return "; ".join(f"{_names(list(servers))}: {text}" for text, servers in groups)


def event_text(event: Event) -> str:
    """Say what happens."""
    if event.do == "burn":
        when = f"{event.at_s:g} to {event.at_s + event.for_s:g} s"
        return f"{when}: a neighbour takes {event.server}'s CPU ({event.workers} processes)"
    return f"{event.at_s:g} s: {event.server} {'leaves' if event.do == 'leave' else 'joins'}"


def events_text(events: Sequence[Event]) -> str:
    """Say what happens in each cell."""
    return "; ".join(event_text(event) for event in events) or "none"


def command(scenario: Scenario) -> str:
    """Write the command that measures a scenario again."""
    return f"steelyard-loadtest compare {scenario.name}{' --quick' if scenario.quick else ''}"


def sentence(parts: Sequence[str]) -> str:
    """Join names: a, b and c."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _decimals(value: float) -> int:
    size = abs(value)
    return next((digits for least, digits in ((100, 0), (10, 1), (1, 2)) if size >= least), 3 if size else 0)


def _names(servers: Sequence[Server]) -> str:
    first, last = servers[0].name, servers[-1].name
    return (
        first if len(servers) == 1 else f"{first} and {last}" if len(servers) == 2 else f"{first} to {last}"
    )


def _abilities(server: Server) -> str:
    return ", ".join(_each_ability(server))


def _each_ability(server: Server) -> Iterator[str]:
    yield "no CPU limit" if server.cpu_cores is None else f"{server.cpu_cores:g} cores"
    yield f"weight {server.weight}"
    if server.delay_ms:
        yield f"answers {server.delay_ms:g} ms late"
    if server.disk_ops_per_s is not None:
        yield f"{server.disk_ops_per_s:g} disk operations/s"
