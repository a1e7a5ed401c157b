"""The input and output of a simulation as values: servers, clients, load balancers, control loop, results.

Pure. Times are in simulated seconds from the start. Quantities are per server, per load balancer or per run,
as their class says. `run.run` turns a `Case` and a seed into a `RunResult`.
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
Part = Literal["capacity", "change", "backlog", "faults", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A random duration in seconds; `cv` is its standard deviation over its mean, for (log)normal only.

    A normal duration is cut at 0; `cv` is that before the cut.
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
    """A request's work at its server, one stage after the other.

    cpu      seconds of one core of speed 1; queues for the server's cores
    io       seconds of one I/O channel; queues for the server's channels
    latency  seconds that pass without anything being busy
    held     part of the requests whose connection stays open after the answer: WebSockets, streams of an
             hour; a server that goes out of service closes its own
    """

    cpu: Draw = NOTHING
    io: Draw = NOTHING
    latency: Draw = NOTHING
    held: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """A neighbour that takes `share` (0..1) of the server's CPU from the requests for a time.

    While a core serves no request, it still looks busy to the agent by `idle_utilization`. That is
    1 for a neighbour that takes all it can get (the default), and less for one with a fixed appetite.
    """

    start_s: float
    end_s: float
    share: float
    idle_utilization: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From `at_s` on, the server's speed is `factor` times its original speed.

    reported   the agent sees it as a limit (a quota); otherwise nobody sees it (a slower clock, a sick disk)
    """

    at_s: float
    factor: float
    reported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """For a time, this part (0..1) of the requests fails unserved, after `after_s`."""

    start_s: float
    end_s: float
    part: float
    after_s: float = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """For a time, each request is answered `by_s` later, with nothing busy."""

    start_s: float
    end_s: float
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server.

    baseline   the operator's weight; None: the law derives it from `cores` (eq 5)
    pinned     the part of all requests that the operator fixes, whatever the law's weight; None: not pinned
    sampled    the server has an agent
    latency    added to every request's own work here, with nothing busy
    away       (start_s, end_s): known to be out of service; requests in flight are still served
    zone       its number
    """

    cores: int = 1
    speed: float = 1.0
    io_channels: int = 1
    baseline: float | None = 1.0
    pinned: float | None = None
    sampled: bool = True
    latency: Draw = NOTHING
    background: tuple[Background, ...] = ()
    steps: tuple[Step, ...] = ()
    failing: tuple[Failing, ...] = ()
    late: tuple[Late, ...] = ()
    away: tuple[tuple[float, float], ...] = ()
    zone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenClients:
    """Requests arrive independently of earlier ones: Poisson, or one every 1/rate; split at random.

    changes   (at_s, rate_per_s): the rate from then on
    """

    rate_per_s: float
    arrivals: Literal["poisson", "constant"] = "poisson"
    changes: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicClients:
    """`clients` send `requests` requests each, one every `interval_s`; each begins `stagger_s` later."""

    clients: int
    interval_s: float
    requests: int
    stagger_s: float = 0.0


Clients = OpenClients | PeriodicClients


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays of the control loop's messages, in seconds.

    sample, report    from the end of the window to the controller
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
    """A control law (None: weights stay at the baseline, no control loop runs) and a picker.

    picker   one of `pickers.NAMES`: the product's Lua, or one of the model's own for comparison
    priced   the load balancers know each request's seconds of CPU, its cost
    true_weights   only without a law: the weights are the servers' true capacities at every moment
    zoned    near servers first: by the product's rule, or by one of Envoy's two (`pickers.by_zone`); None: no
    known    with a law: the parts of its weights that are replaced by the truth (`known_parts`)
    loop     only without a law: one of `comparison_loops.LOOPS`, which sets the weights or informs the picker
    """

    law: str | None = "steelyard"
    picker: str = "vnswrr2"
    true_weights: bool = False
    priced: bool = False
    zoned: Zoned | None = None
    known: tuple[Part, ...] = ()
    loop: str | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """`steelyard-<law>-<picker>`, or the picker alone without a law."""
        return self.picker if self.law is None else f"steelyard-{self.law}-{self.picker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One simulation without its seed.

    duration_s   arrivals stop here; requests in flight then are in flight in the result
    warmup_s     requests that arrive before this are served but not in the result's figures
    tick_s       T: of the controller, the agents, the balancers' reports and fetches alike
    balancers    n, each with its own picker and counters
    in_phase     everybody acts at the product's instants of the tick, as with synchronized clocks; otherwise
                 each at its own
    upstreams    number of upstreams on the same servers, each with its part of the requests, its law and
                 balancers
    exchange_s   interval at which the product's pickers exchange their requests in flight; 0: never
    lost_exchanges   the part (0..1) of exchanges that is lost
    in_flight_in_answers   servers report their requests in flight in each answer
    subset_size  for the product's pickers: servers in each balancer's subset; 0: all
    scaled_by    with a law: the signal by which servers are started and stopped, in their order
                 (`autoscaler`)
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
    in_flight_in_answers: bool = False
    subset_size: int = 0
    warmup_s: float = 0.0
    tick_s: float = 1.0
    in_phase: bool = False
    delays: Delays = field(default_factory=Delays)
    scaled_by: ScaledBy | None = None
    zones: tuple[int, ...] = ()

    @property
    def exchanges_s(self) -> float:
        """Return the interval of exchanges; as in the product, a single balancer has none."""
        return self.exchange_s if self.balancers > 1 else 0.0

    def __post_init__(self) -> None:
        if not self.servers or self.balancers < 1:
            raise ValueError("a case needs a server and a load balancer; give at least one of each")
        if self.tick_s <= 0 or self.duration_s <= self.warmup_s:
            raise ValueError("a case needs tick_s > 0 and duration_s > warmup_s")
        if self.scaled_by is not None and (self.balancing.law is None or len(self.servers) < 3):
            raise ValueError("scaled_by needs a law and at least three servers; give both")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """The control loop's record: a row per tick of the controller, k columns for the servers.

    t_s          end of the tick
    weights      ticks x k, the shares that the law published (sum 1)
    picks        ticks x k, requests sent to each server during the tick
    utilization  ticks x k, CPU in the agents' last samples; NaN before the first
    crossed      by tick, requests to a server in another zone than their load balancer's
    """

    t_s: Floats
    weights: Floats
    picks: Ints
    utilization: Floats
    crossed: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of one case with one seed; requests in the order of completion.

    sent_s, latency_ms   one entry per completed request that was sent after the warm-up
    arrived = served + failed + in_flight   of all requests, warm-up included
    requests_per_server   k, of all requests sent
    events        number of events that the event loop ran
    cpu_s         CPU seconds of the event loop: a measurement, not deterministic
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
