"""A scenario: its servers, load, events and algorithms; bounds are for its file. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, with_config

STRICT = ConfigDict(extra="forbid")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Seconds = Annotated[float, Field(ge=0, le=3600)]
Generator = Literal["locust", "open", "wrk"]
LOWEST_CORES = 0.05
"""A control group's quota of 1 ms in 20 ms, the least that a kernel takes."""
Happening = Literal["burn", "spin", "hold", "fail", "slow", "cold", "leave", "join"]
Mark = Literal["failures_part", "recovery_s", "share_error", "slowest_phase"]
LONGEST_HOLD_S = 60.0
"""The longest time that a demo server sleeps for a request."""


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The swing of a server's CPU limit about its cpu_cores: by this part of it, up first, once in period_s.

    phase: the part of a period (0..1) that is over when the counted part begins. The limit is constant before
    that.
    """

    by: Annotated[float, Field(gt=0, le=0.9)]
    period_s: Annotated[float, Field(ge=2, le=3600)]
    phase: Annotated[float, Field(ge=0, lt=1)] = 0.0


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """Another server, of this size, has the address from this moment of the counted part on."""

    at_s: Seconds
    cpu_cores: Annotated[float, Field(ge=LOWEST_CORES, le=64)]


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server. cpu_cores None: no limit. weight: the operator's value for it.

    delay_ms         added to each answer, without being busy
    disk_ops_per_s   operations of its disk a second (None: those of the machine's)
    paced            its limit is held by pauses, even where a quota could hold it
    workers          of its pool, read by its agent as the indicator `workers` (None: no bound, no indicator)
    zone             all servers of a scenario have one, or none has; balancers are in the first server's
    """

    name: Name
    cpu_cores: Annotated[float, Field(ge=LOWEST_CORES, le=64)] | None = None
    paced: bool = False
    weight: Annotated[int, Field(ge=1, le=1000)] = 1
    delay_ms: Annotated[float, Field(ge=0, le=60_000)] = 0.0
    disk_ops_per_s: Annotated[float, Field(ge=1, le=100_000)] | None = None
    workers: Annotated[int, Field(ge=1, le=1000)] | None = None
    drift: Drift | None = None
    takeover: Takeover | None = None
    zone: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,63}$")] = ""

    @property
    def moves(self) -> bool:
        """Return whether its CPU limit changes during a trial."""
        return self.drift is not None or self.takeover is not None

    def cores_at(self, t_s: float) -> float | None:
        """Return its CPU limit t_s seconds after the counted part began; None without a limit."""
        if self.takeover and t_s >= self.takeover.at_s:
            return self.takeover.cpu_cores
        if self.cpu_cores is None or self.drift is None:
            return self.cpu_cores
        turns = max(t_s, 0.0) / self.drift.period_s + self.drift.phase
        return self.cpu_cores * (1 + self.drift.by * math.sin(2 * math.pi * turns))


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load.

    levels       locust: users. wrk: connections. With `own_connections`, users with a connection for each
                 request. open: requests per second. With `of_capacity`, the part (0..1) of the servers'
                 capacity together, which is measured first
    warm_up_s    the first seconds of each trial, which do not count
    cool_down_s  the time between two trials
    """

    generator: Generator
    levels: Annotated[tuple[Annotated[float, Field(gt=0, le=100_000)], ...], Field(min_length=1)]
    of_capacity: bool = False
    own_connections: bool = False
    seconds: Annotated[float, Field(ge=1, le=3600)] = 60.0
    repeats: Annotated[int, Field(ge=1, le=100)] = 3
    warm_up_s: Seconds = 10.0
    cool_down_s: Seconds = 2.0


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens at_s after the counted part of each trial has begun.

    burn   a neighbour takes the CPU of the server's limit for for_s, with this number of processes; with
           `part`, at most this part of the limit
    spin   the server waits busily for for_s: all CPU of its limit is used, and requests wait for none of it
    hold   other requests hold this number of workers of the server's pool for for_s, and no CPU
    fail   the server answers every request of the load at once with an error, for for_s
    slow   the server answers ms later, without being busy, for for_s
    cold   the server's cache of this number of entries is empty, as after a restart. All entries are asked
           for equally often, and a miss takes `times` the work of a hit
    leave  the balancer is informed that the server goes
    join   the balancer is informed that it is back
    """

    at_s: Seconds
    do: Happening
    server: Name
    for_s: Seconds = 0.0
    workers: Annotated[int, Field(ge=1, le=8)] = 2
    part: Annotated[float, Field(ge=0.01, le=0.99)] | None = None
    ms: Annotated[int, Field(ge=1, le=60_000)] = 50
    entries: Annotated[int, Field(ge=1, le=100_000)] = 100
    times: Annotated[int, Field(ge=1, le=100)] = 10

    @property
    def lasts(self) -> bool:
        """Return whether it is the server's own, for for_s; the balancer is informed of the others."""
        return self.do not in ("leave", "join")


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The questions about the servers together; declared before anything was measured.

    utilization_ratio  the default's target at `level`: the largest CPU utilization of a server over the mean
    reference          the algorithm whose number of servers is compared
    p99_times          the bound of every algorithm's p99, over the reference's at the lowest level
    """

    utilization_ratio: Annotated[float, Field(ge=1)]
    level: Annotated[float, Field(gt=0)]
    reference: str
    p99_times: Annotated[float, Field(gt=1)]


@with_config(STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario, full or quick.

    fleet   the questions about its servers together; None: none
    static  the servers are one nginx that answers at once (proxy-cost)
    beside  the algorithm of a further balancer before the same servers, with an equal part of the requests.
            It is not measured, but figures of requests cover its part, too
    marks   by figure, the largest value with which an algorithm passes. They are the same for all, and were
            declared before anything was measured
    """

    name: str
    title: str
    what: str
    source: str
    path: Annotated[str, Field(pattern=r"^/")] = "/"
    static: bool = False
    beside: str = ""
    fleet: Fleet | None = None
    servers: Annotated[tuple[Server, ...], Field(min_length=1)]
    load: Load
    events: tuple[Event, ...] = ()
    marks: Mapping[Mark, Annotated[float, Field(ge=0)]] = field(default_factory=dict)
    algorithms: Annotated[tuple[str, ...], Field(min_length=1)]
    quick: bool

    @property
    def weights(self) -> dict[str, int]:
        """Return the weights that an operator would configure."""
        return {server.name: server.weight for server in self.servers}
