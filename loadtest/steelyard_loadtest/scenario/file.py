"""A scenario's TOML file: its keys, and their meaning. Pure.

The quick form is the full one with the keys of [quick] instead of its own. The form for `sources` is the full
one with the algorithms of [sources].
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from steelyard_protocol import toml_text

from steelyard_loadtest.scenario import algorithms
from steelyard_loadtest.scenario.definition import LONGEST_HOLD_S, LOWEST_CORES, Scenario


class ScenarioError(ValueError):
    """The file is no valid scenario; the text names the place and the remedy."""


_SCENARIO = TypeAdapter(Scenario)


def parse(name: str, text: str, *, quick: bool, sources: bool = False) -> Scenario:
    """Read a scenario; `sources`: its form for the set of that name, unless quick. Raises ScenarioError."""
    try:
        document = toml_text.parse(text)
    except ValueError as error:
        raise ScenarioError(f"{name}: {error}") from None
    try:
        changes = document.pop("quick", {})
        own = document.pop("sources", {})
        if not isinstance(own, dict) or own.keys() - {"algorithms"}:
            # Its trials go into the same folder as those of the full form.
            raise ScenarioError(f"{name}: sources: give algorithms alone (docs/guides/load-lab.md)")
        if quick:
            document = _merged(document, changes)
        elif sources:
            document |= own
        servers = {"servers": _each(document.get("servers"))}
        file = _SCENARIO.validate_python({"name": name, "quick": quick} | document | servers)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ScenarioError(f"{name}: {place}: {first['msg']} (docs/guides/load-lab.md)") from None
    scenario = replace(
        file,
        name=name,
        quick=quick,
        what=" ".join(file.what.split()),
        events=tuple(sorted(file.events, key=lambda event: event.at_s)),
        algorithms=tuple(_algorithms(name, file.algorithms)),
    )
    for fault in _faults(scenario):
        raise ScenarioError(f"{scenario.name}: {fault}")
    return scenario


def _each(servers: Any) -> Any:  # noqa: ANN401 - TOML, not judged yet
    """Return `times` servers of each kind, by default named by their numbers."""
    try:
        kinds = [kind for kind in servers for _ in range(kind.get("times", 1))]
    except (TypeError, AttributeError):
        return servers
    alone = [{key: value for key, value in kind.items() if key != "times"} for kind in kinds]
    return [{"name": f"server-{number}"} | kind for number, kind in enumerate(alone, 1)]


def _merged(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _merged(document[key], changes[key])
        if isinstance(document.get(key), dict) and isinstance(changes.get(key), dict)
        else changes.get(key, document.get(key))
        for key in document | changes
    }


def _algorithms(scenario: str, words: Sequence[str]) -> Iterator[str]:
    try:
        for word in words:
            for name in algorithms.SETS.get(word, [word]):
                yield algorithms.named(name).name
    except ValueError as error:
        raise ScenarioError(f"{scenario}: algorithms: {error}") from None


def _faults(scenario: Scenario) -> Iterator[str]:
    """Yield contradictions between values that are each within their bounds."""
    load, names = scenario.load, [server.name for server in scenario.servers]
    limited = [server.name for server in scenario.servers if server.cpu_cores and not server.paced]
    pools = {server.name: server.workers for server in scenario.servers}
    for key, listed in (("servers", names), ("algorithms", scenario.algorithms)):
        yield from (f"{key}: {name} is listed twice" for name in sorted(listed) if listed.count(name) > 1)
    for server in scenario.servers:
        if server.drift and (server.cpu_cores or 0.0) * (1 - server.drift.by) < LOWEST_CORES:
            yield f"servers: {server.name} drifts to under {LOWEST_CORES:g} cores, or has no cpu_cores"
        if server.takeover and (server.drift or server.cpu_cores is None):
            yield f"servers: {server.name} is taken over, so it needs cpu_cores, and has no drift"
        if server.paced and (server.moves or server.cpu_cores is None):
            yield f"servers: {server.name} is paced, so it needs cpu_cores, and no drift or takeover"
    for event in scenario.events:
        if event.server not in names:
            yield f"events: no server {event.server!r}; {', '.join(names)}"
        if event.at_s + event.for_s > load.seconds:
            yield f"events: {event.do} at {event.at_s:g} s ends after the load's {load.seconds:g} s"
        if event.do in ("burn", "spin", "fail", "slow") and not event.for_s:
            yield f"events: {event.do} needs for_s"
        if event.do in ("fail", "slow", "cold") and scenario.path.partition("?")[0] != "/":
            yield f"events: {event.do} is for the path /, not {scenario.path}"
        if event.part is not None and event.do != "burn":
            yield f"events: part is for burn, not {event.do}"
        if event.do == "spin" and event.server in limited:
            yield f"events: {event.server} needs paced = true to spin, which would use up a quota"
        if event.do == "hold" and not 0 < event.for_s <= LONGEST_HOLD_S:
            yield f"events: hold needs for_s, up to {LONGEST_HOLD_S:g}"
        if event.do == "hold" and event.workers > (pools.get(event.server) or 0):
            yield f"events: hold takes {event.workers} workers, and {event.server} has fewer"
    if len({bool(server.zone) for server in scenario.servers}) > 1:
        yield "servers: give all of them a zone, or none"
    yield from _faults_beside(scenario)
    if scenario.fleet and scenario.fleet.level not in load.levels:
        yield f"fleet.level: {scenario.fleet.level:g} is none of the levels"
    if scenario.fleet and scenario.fleet.reference not in scenario.algorithms:
        yield f"fleet.reference: {scenario.fleet.reference} is none of the algorithms"
    if scenario.fleet and any(server.cpu_cores is None for server in scenario.servers):
        yield "fleet: give each server cpu_cores"
    if load.of_capacity and load.generator != "open":
        yield "load.of_capacity is for the generator `open`"
    if load.own_connections and load.generator != "wrk":
        yield "load.own_connections is for the generator `wrk`"
    if load.of_capacity and max(load.levels) > 1:
        yield "load.levels: with of_capacity, levels are parts from 0 to 1"
    if load.of_capacity and any(pools.values()):
        yield "load.of_capacity: the capacity of servers with workers is not measured; give levels, not parts"
    if load.generator != "open" and any(algorithms.named(name).balancers > 1 for name in scenario.algorithms):
        yield "algorithms: several balancers are for the generator `open`, which spreads requests over them"
    if scenario.static and (scenario.events or load.of_capacity):
        yield "static servers have no events and no capacity"
    if scenario.static and any(server.moves for server in scenario.servers):
        yield "static servers have no limit that drifts"


def _faults_beside(scenario: Scenario) -> Iterator[str]:
    """Yield why the balancer beside the measured ones cannot run."""
    if not scenario.beside:
        return
    known = algorithms.BY_NAME.get(scenario.beside)
    if known is None or known.law or known.fed_by or known.balancers > 1 or known.program == "direct":
        yield f"beside: {scenario.beside!r} is no single balancer that needs no controller, such as nginx-rr"
    if scenario.static or scenario.load.generator != "open":
        yield "beside is for the generator `open`, which spreads requests, and not for static servers"
