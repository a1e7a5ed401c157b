"""Everything that can be compared: a balancer, its method, and its configuration."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from steelyard_controller import laws

from steelyard_loadtest.machine import picker_list
from steelyard_loadtest.machine.programs import OTHERS

PROGRAMS = ("direct", "nginx", "steelyard", *OTHERS)


def _program(name: str) -> str:
    if name not in PROGRAMS:
        raise ValueError(f"there is no program {name!r}; there are: {', '.join(PROGRAMS)}")
    return name


Program = Annotated[str, AfterValidator(_program)]
Weights = Literal["equal", "true", "reversed"]

PICKERS = sorted((each.name for each in picker_list.listed()), key=lambda name: name != picker_list.DEFAULT)
"""The default first: palette gives markers in this order."""


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One way to spread requests."""

    name: str
    title: str
    program: Program
    method: str = ""
    """nginx: the upstream's directive; ours: the picker; HAProxy: `balance`; Envoy: `lb_policy`; otherwise
    the program's own word for it."""
    adaptive: bool = False
    """The method itself uses something that it measures, such as requests in flight."""
    law: str = ""
    """The controller's law; "" without a controller."""
    weights: Weights = "equal"
    """The operator's weights: none, the scenario's, or those in reverse order."""
    backwards: bool = False
    """The servers stand in the configuration in the opposite order."""
    connections: int | None = None
    """nginx's worker_connections; None: enough for every level."""
    balancers: int = 1
    """Number of equal balancers, each with an equal part of the requests."""
    shares_in_flight: bool = False
    """Ours: they exchange their requests in flight."""
    mode: Literal["http", "tcp"] = "http"
    fed_by: Literal["", "agent-check", "reporter", "orca", "orca-stream", "xds"] = ""
    """The way in which a balancer that is not ours gets the agents' samples."""
    indicators: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Declared with the upstream beside the four: a name, and its knee if it has one."""
    four: bool = True
    """cpu, mem, net and io count, as well."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Ours: more of the upstream's options."""
    directives: tuple[str, ...] = ()
    """nginx: more of the http block, without semicolons."""

    @property
    def ours(self) -> bool:
        """Return whether our data plane picks."""
        return self.program == "steelyard"

    @property
    def informed(self) -> bool:
        """Return whether an operator gave it the servers' capacities. Otherwise it is *online*."""
        return self.weights != "equal"

    @property
    def adapts(self) -> bool:
        """Return whether its shares depend on anything measured."""
        return self.ours or bool(self.fed_by) or self.adaptive


CONTENDERS = (
    "nginx-least_time", "nginx-least_time-header", "nginx-mainline-least_conn", "haproxy-random2",
    "traefik-wrr", "traefik-p2c", "traefik-leasttime", "caddy-least_conn", "caddy-random_choose",
)  # fmt: skip
"""Methods that became free or the default lately, and programs beside nginx, HAProxy and Envoy."""

FEW = (
    "nginx-rr", "nginx-least_conn", "nginx-least_time", "haproxy-leastconn",
    "envoy-least_request", "envoy-cswrr", "envoy-steelyard", "steelyard",
)  # fmt: skip
USUAL = (
    "nginx-rr", "nginx-wrr", "nginx-least_conn", "nginx-wleast_conn", "nginx-random2", "nginx-hash",
    "nginx-fair",
    "haproxy-roundrobin", "haproxy-leastconn", "haproxy-leastconn-agent", "haproxy-steelyard",
    *CONTENDERS,
    "envoy-round_robin", "envoy-least_request", "envoy-cswrr", "envoy-cswrr-oob", "envoy-steelyard",
    "envoy-steelyard-round_robin",
    "steelyard", "steelyard-steelyard-vnswrr", "steelyard-steelyard-least_conn",
    "steelyard-steelyard-peak_ewma", "steelyard-paper-vnswrr", "steelyard-cswrr-vnswrr2",
    "steelyard-static-vnswrr2", "steelyard-static-peak_ewma",
)  # fmt: skip
SETS = {"usual": USUAL, "few": FEW, "contenders": CONTENDERS}
"""The algorithms that these words stand for in a scenario's list."""

DEFAULT = f"steelyard-steelyard-{picker_list.DEFAULT}"
"""The default law with the default picker."""

_OURS = [
    Algorithm(
        name=f"steelyard-{law}-{picker}", program="steelyard", method=picker, law=law,
        title=f"Steelyard{'' if law == 'steelyard' else f' {law}'}, {picker}",
    )
    for law, picker in product(laws.NAMES, PICKERS)
]  # fmt: skip


def with_those_of(file: Path, ours: Sequence[Algorithm]) -> tuple[Algorithm, ...]:
    """Return ours behind nginx's of a TOML file, and before the rest of it, which has a table for each.

    Raises ValueError for an invalid table.
    """
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    known = [{"name": name, "program": name.partition("-")[0]} | fields for name, fields in tables.items()]
    others = TypeAdapter(tuple[Algorithm, ...]).validate_python(known)
    before = [algorithm for algorithm in others if algorithm.program in ("direct", "nginx", "nginx-mainline")]
    return (*before, *ours, *(algorithm for algorithm in others if algorithm not in before))


ALGORITHMS = with_those_of(Path(__file__).with_suffix(".toml"), _OURS)
BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


def named(name: str) -> Algorithm:
    """Return the algorithm of this name; `steelyard` is short for the default.

    Raises ValueError, which lists the known names.
    """
    full = DEFAULT if name == "steelyard" else name
    if full not in BY_NAME:
        raise ValueError(f"there is no algorithm {name!r}; there are: steelyard, {', '.join(BY_NAME)}")
    return BY_NAME[full]
