"""What is simulated, as values: servers, clients, load balancers, the control loop; and what came out.

Pure. Times are in simulated seconds from the start; every quantity is per server, per load
balancer or per run as its class says. `run.run` turns a `Case` and a seed into a `RunResult`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Shape = Literal["constant", "exponential", "lognormal", "normal"]
ScaledBy = Literal["headroom", "cpu"]
Zoned = Literal["steelyard", "envoy", "load-aware"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A random duration in seconds; `cv` is its standard deviation over its mean, for (log)normal only.

    A normal one is 0 where it would be less; `cv` is that of before.
    """

    mean_s: float = 0.0
    shape: Shape = "exponential"
    cv: float = 1.0

    def __post_init__(self) -> None:
        if self.mean_s < 0 or self.cv <= 0:
            raise ValueError(f"a duration has mean_s {self.mean_s:g}, cv {self.cv:g}; give >= 0 and > 0")


NOTHING = Draw(mean_s=0.0, shape="constant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a request asks of its server, one stage after the other.

    cpu      seconds of one core of speed 1; queues for the server's cores
    io       seconds of one I/O channel; queues for the server's channels
    latency  seconds that pass without anything being busy
    held     part of the requests whose connection stays open once they are answered: WebSockets, streams of
             an hour; a server that goes out of service closes its own
    """

    cpu: Draw = NOTHING
    io: Draw = NOTHING
    latency: Draw = NOTHING
    held: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """A neighbour that takes `share` (0..1) of the server's CPU from the requests for a time.

    While a core serves no request it still looks busy to the agent by `idle_utilization`:
    1 for a neighbour that takes all it can get (the default), less for one with a fixed appetite.
    """

    start_s: float
    end_s: float
    share: float
    idle_utilization: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From `at_s` on the server's speed is `factor` times what it was built with.

    reported   the agent's limit says so (a quota); else nobody does (a slower clock, a sick disk)
    """

    at_s: float
    factor: float
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """For a time, this part (0..1) of the requests fails after `after_s`, unserved."""

    start_s: float
    end_s: float
    part: float
    after_s: float = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server.

    baseline   the operator's weight; None: the law derives it from `cores` (eq 5)
    pinned     the part of all requests that the operator gives it, whatever a law thinks; None: no such
    latency    what every request takes here on top of its own work, with nothing busy
    away       (start_s, end_s): out of service and known to be; what is in flight there is still served
    zone       its number
    """

    cores: int = 1
    speed: float = 1.0
    io_channels: int = 1
    baseline: float | None = 1.0
    pinned: float | None = None
    latency: Draw = NOTHING
    background: tuple[Background, ...] = ()
    steps: tuple[Step, ...] = ()
    failing: tuple[Failing, ...] = ()
    away: tuple[tuple[float, float], ...] = ()
    zone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClients:
    """Requests come whatever became of the others: Poisson, or one every 1/rate; split at random.

    changes   (at_s, rate_per_s): from then on this rate
    """

    rate_per_s: float
    arrivals: Literal["poisson", "constant"] = "poisson"
    changes: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicClients:
    """`clients` that each send `requests` requests, one every `interval_s`; each begins `stagger_s` later."""

    clients: int
    interval_s: float
    requests: int
    stagger_s: float = 0.0


Clients = OpenClients | PeriodicClients


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How late the control loop's messages are, in seconds.

    sample, report    from the end of the window to the controller's reach
    publish, fetch    from the decision to Memcached; from a balancer's fetch to its ring
    silent_s          (start, end) between which no report arrives
    """

    sample_s: float = 0.005
    report_s: float = 0.005
    publish_s: float = 0.005
    fetch_s: float = 0.005
    silent_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balancing:
    """Who chooses: a control law (None: weights stay at the baseline, no control loop runs) and a picker.

    picker   one of `pickers.NAMES`: the product's Lua, or one of the model's own to compare with
    priced   the load balancers know each request's seconds of CPU, its cost
    true_weights   only without a law: the weights are what the servers can truly do, at every moment
    zoned    near servers first: by the product's rule, or by one of Envoy's two (`pickers.by_zone`); None: no
    """

    law: str | None = "steelyard"
    picker: str = "vnswrr2"
    true_weights: bool = False
    priced: bool = False
    zoned: Zoned | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`steelyard-<law>-<picker>`, or the picker alone where no law runs."""
        return self.picker if self.law is None else f"steelyard-{self.law}-{self.picker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One simulation, but for its seed.

    duration_s   arrivals stop here; what is then in flight is still in flight in the result
    warmup_s     requests that arrive before are served but not in the result's figures
    tick_s       T: of the controller, the agents, the balancers' reports and fetches alike
    balancers    n, each with its own picker and counters
    in_phase     all act at the product's instants of the tick, as where clocks agree; else each at its own
    upstreams    so many share the servers, each with its part of the requests, its own law and balancers
    exchange_s   the product's pickers tell each other so often what they have in flight; 0: never
    lost_exchanges   the part (0..1) of that which does not happen
    told         servers say in each answer what they have in flight
    subset_size  of the product's pickers: of how many servers each balancer's subset is; 0: all
    scaled_by    with a law: what servers are started and stopped by, in their order (`autoscaler`)
    zones        of each balancer; empty: all are in zone 0
    """

    servers: tuple[Server, ...]
    clients: Clients
    work: Work
    duration_s: float
    balancing: Balancing = field(default_factory=Balancing)
    balancers: int = 1
    upstreams: int = 1
    exchange_s: float = 0.0
    lost_exchanges: float = 0.0
    told: bool = False
    subset_size: int = 0
    warmup_s: float = 0.0
    tick_s: float = 1.0
    in_phase: bool = False
    delays: Delays = field(default_factory=Delays)
    scaled_by: ScaledBy | None = None
    zones: tuple[int, ...] = ()

    @property
    def exchanges_s(self) -> float:
        """Return how far apart exchanges are: one balancer alone has nobody to tell, as in the product."""
        return self.exchange_s if self.balancers > 1 else 0.0

    def __post_init__(self) -> None:
        if not self.servers or self.balancers < 1:
            raise ValueError("a case needs a server and a load balancer; give at least one of each")
        if self.tick_s <= 0 or self.duration_s <= self.warmup_s:
            raise ValueError("a case needs tick_s > 0 and duration_s > warmup_s")
        if self.scaled_by is not None and (self.balancing.law is None or len(self.servers) < 3):
            raise ValueError("servers that are started and stopped need a law, and be three; give both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """What the control loop did: a row per tick of the controller, k columns for the servers.

    t_s          end of the tick
    weights      ticks x k, the shares that the law published at it (sum 1)
    picks        ticks x k, requests sent to each server during the tick
    utilization  ticks x k, CPU as the agents' last samples had it; NaN before the first
    crossed      by tick, the requests that went to a server of another zone than their load balancer's
    """

    t_s: Floats
    weights: Floats
    picks: Ints
    utilization: Floats
    crossed: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came out of one case with one seed; requests in the order of completion.

    sent_s, latency_ms   one entry per request completed that was sent after the warm-up
    arrived = served + failed + in_flight   of all requests, warm-up included
    requests_per_server   k, of all requests that were sent
    events        that the event loop took
    cpu_s         of the event loop: a measurement, not deterministic
    """

    sent_s: Floats
    latency_ms: Floats
    arrived: int
    served: int
    failed: int
    in_flight: int
    requests_per_server: Ints
    ticks: Ticks
    events: int
    cpu_s: float
