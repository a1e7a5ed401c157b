"""What a scenario is: servers, load, events, and what is compared. Pure."""

from dataclasses import dataclass
from typing import Literal

Generator = Literal["locust", "open", "siege", "wrk"]
Happening = Literal["burn", "leave", "join"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server. cpu_cores None: no limit. weight: what an operator would write down for it.

    delay_ms: it answers so much later, without being busy. disk_ops_per_s: its disk
    does so many operations (None: as many as the machine's).
    """

    name: str
    cpu_cores: float | None
    weight: int
    delay_ms: float = 0.0
    disk_ops_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How it is loaded.

    levels: locust: users; siege: users; wrk: connections; open: requests per second, or
    with `of_capacity` the part (0..1) of what the servers together can do, which is
    measured first. Of each cell the first warm_up_s are not counted; cool_down_s is
    between two cells.
    """

    generator: Generator
    levels: tuple[float, ...]
    of_capacity: bool
    seconds: float
    repeats: int
    warm_up_s: float
    cool_down_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens at_s after the counted part of each cell has begun.

    burn: a neighbour takes the CPU of the server's limit for for_s, with so many
    processes; leave: the balancer is told that the server goes; join: that it is back.
    """

    at_s: float
    do: Happening
    server: str
    for_s: float = 0.0
    workers: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario, full or quick. static: the servers are one nginx that answers at once (proxy-cost)."""

    name: str
    title: str
    what: str
    source: str
    path: str
    static: bool
    servers: tuple[Server, ...]
    load: Load
    events: tuple[Event, ...]
    algorithms: tuple[str, ...]
    quick: bool

    @property
    def weights(self) -> dict[str, int]:
        """Return what an operator would have written down."""
        return {server.name: server.weight for server in self.servers}
