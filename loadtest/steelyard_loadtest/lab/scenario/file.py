"""A scenario's TOML file: what may stand in it, and what it means. Pure.

The quick form is the full one with the keys of [quick] in the place of its own.
"""

import tomllib
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard_loadtest.lab import algorithms
from steelyard_loadtest.lab.scenario.model import Event, Generator, Happening, Load, Scenario, Server

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Seconds = Annotated[float, Field(ge=0, le=3600)]


class ScenarioError(ValueError):
    """The file does not say what a scenario must; the text names the place and the remedy."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Server(_Strict):
    name: Name
    cpu_cores: Annotated[float, Field(ge=0.05, le=64)] | None = None
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    delay_ms: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    disk_ops_per_s: Annotated[float, Field(ge=1, le=100_000)] | None = None


class _Load(_Strict):
    generator: Generator
    levels: Annotated[tuple[Annotated[float, Field(gt=0, le=100_000)], ...], Field(min_length=1)]
    of_capacity: bool = False
    seconds: Annotated[float, Field(ge=1, le=3600)]
    repeats: Annotated[int, Field(ge=1, le=100)] = 1
    warm_up_s: Seconds = 3.0
    cool_down_s: Seconds = 1.0


class _Event(_Strict):
    at_s: Seconds
    do: Happening
    server: Name
    for_s: Seconds = 0.0
    workers: Annotated[int, Field(ge=1, le=8)] = 2


class _File(_Strict):
    title: str
    what: str
    source: str
    path: Annotated[str, Field(pattern=r"^/")] = "/"
    static: bool = False
    servers: Annotated[tuple[_Server, ...], Field(min_length=1)]
    load: _Load
    events: tuple[_Event, ...] = ()
    algorithms: Annotated[tuple[str, ...], Field(min_length=1)]


def parse(name: str, text: str, *, quick: bool) -> Scenario:
    """Read a scenario. Raises ScenarioError."""
    try:
        document = tomllib.loads(text)
        changes = document.pop("quick", {})
        if quick:
            document = _merged(document, changes)
        file = _File.model_validate(document)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{name}: not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ScenarioError(f"{name}: {place}: {first['msg']} (docs/load-lab.md)") from None
    scenario = Scenario(
        name=name,
        title=file.title,
        what=" ".join(file.what.split()),
        source=file.source,
        path=file.path,
        static=file.static,
        servers=tuple(Server(**server.model_dump()) for server in file.servers),
        load=Load(**file.load.model_dump()),
        events=tuple(Event(**event.model_dump()) for event in sorted(file.events, key=lambda e: e.at_s)),
        algorithms=tuple(_algorithm(name, algorithm) for algorithm in file.algorithms),
        quick=quick,
    )
    _check(scenario)
    return scenario


def _merged(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _merged(document[key], changes[key])
        if isinstance(document.get(key), dict) and isinstance(changes.get(key), dict)
        else changes.get(key, document.get(key))
        for key in document | changes
    }


def _algorithm(scenario: str, name: str) -> str:
    try:
        return algorithms.named(name).name
    except ValueError as error:
        raise ScenarioError(f"{scenario}: algorithms: {error}") from None


def _check(scenario: Scenario) -> None:
    names = [server.name for server in scenario.servers]
    _unique(scenario.name, "servers", names)
    _unique(scenario.name, "algorithms", scenario.algorithms)
    for event in scenario.events:
        if event.server not in names:
            raise ScenarioError(f"{scenario.name}: events: no server {event.server!r}; {', '.join(names)}")
        if event.at_s + event.for_s > scenario.load.seconds:
            raise ScenarioError(
                f"{scenario.name}: events: {event.do} at {event.at_s:g} s ends after the load's"
                f" {scenario.load.seconds:g} s"
            )
        if event.do == "burn" and not event.for_s:
            raise ScenarioError(f"{scenario.name}: events: burn needs for_s")
    if scenario.load.of_capacity and scenario.load.generator != "open":
        raise ScenarioError(f"{scenario.name}: load.of_capacity is for the generator `open`")
    if scenario.load.of_capacity and max(scenario.load.levels) > 1:
        raise ScenarioError(f"{scenario.name}: load.levels: with of_capacity a part, from 0 to 1")
    if scenario.static and (scenario.events or scenario.load.of_capacity):
        raise ScenarioError(f"{scenario.name}: static servers have no events and no capacity")


def _unique(scenario: str, key: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ScenarioError(f"{scenario}: {key}: {twice[0]} stands there twice")
