"""Robinhood, for comparison: Dropbox's PID controllers move weights until all servers are equally utilized.

Pure but for the generator passed in. Source: Y.-S. Tai, *What's new with Robinhood, our in-house load
balancing service* (dropbox.tech, 23 October 2024), of which the beginning and a public summary could be
read. Published there: each server reports its load. Each has a PID controller, whose set point is the
average utilization of its service. The output is the change of the server's weight. Weights are normalized
over the service, and clients choose by weighted round robin. The default load is CPU.

    e_j = mean of u - u_j
    w_j = max(w_j + KP e_j + KI sum of e_j T + KD (change of e_j) / T, LEAST), over the mean of all w

Not readable there, and chosen here on clusters of three to six servers of our own: the gains, the period T,
the least weight, and the sum's bound. A server that was out of service begins with the mean weight and
without memory. Reports and tables have the delays of Steelyard's own messages.
"""

from collections.abc import Sequence
from random import Random

from steelyard_simulator.balancer import Balancer
from steelyard_simulator.engine import Engine, stream
from steelyard_simulator.model import Case, Delays
from steelyard_simulator.simulated_server import CpuMeter, SimulatedServer

PERIOD_S = 1.0
KP, KI, KD = 0.4, 0.02, 0.2

LEAST = 0.05
"""A server below this part of the mean would need minutes to come back."""

MOST_SUMMED = 1.0
"""Bound of the sum of errors in seconds: an error that cannot be mended must not wind it up."""

WHOLE = 1000
"""The mean weight as a whole number."""


class Pid:
    """One server's controller."""

    __slots__ = ("_before", "_sum")

    def __init__(self) -> None:
        self._sum, self._before = 0.0, None  # type: float, float | None

    def step(self, error: float) -> float:
        """Return the change of the weight."""
        self._sum = max(-MOST_SUMMED, min(self._sum + error * PERIOD_S, MOST_SUMMED))
        change = 0.0 if self._before is None else error - self._before
        self._before = error
        return KP * error + KI * self._sum + KD * change / PERIOD_S


class Service:
    """The weights of one service's servers; their mean is 1."""

    def __init__(self, servers: int) -> None:
        self.weights = [1.0] * servers
        self._pids: list[Pid | None] = [Pid() for _ in range(servers)]

    def step(self, utilization: Sequence[float | None]) -> list[float]:
        """Take the servers' load (None: out of service), and return all weights."""
        present = [server for server, used in enumerate(utilization) if used is not None]
        mean = sum(utilization[server] or 0.0 for server in present) / max(len(present), 1)
        for server, used in enumerate(utilization):
            pid = self._pids[server]
            if used is None:
                self._pids[server] = None
            elif pid is None:
                self._pids[server], self.weights[server] = Pid(), 1.0
            else:
                self.weights[server] = max(self.weights[server] + pid.step(mean - used), LEAST)
        scale = len(present) / sum(self.weights[server] for server in present) if present else 1.0
        for server in present:
            self.weights[server] *= scale
        return self.weights


class Robinhood:
    """The load balancing service: a `Service` for each upstream, on the same servers' load."""

    def __init__(self, case: Case, seed: int) -> None:
        self._engine: Engine
        self._random: Random = stream(seed, "robinhood")
        self._delays: Delays = case.delays
        self._services = [Service(len(case.servers)) for _ in range(case.upstreams)]
        self._load: list[float | None] = [None] * len(case.servers)
        self._balancers: Sequence[Balancer] = ()

    def begin(
        self, engine: Engine, servers: Sequence[SimulatedServer], balancers: Sequence[Balancer]
    ) -> None:
        """Start the servers' reports, each at its own phase, and the controllers' periods."""
        self._engine, self._balancers = engine, balancers
        for index, server in enumerate(servers):
            engine.at((1.0 - self._random.random()) * PERIOD_S, self._report, (index, CpuMeter(server)))
        engine.at((1.0 + self._random.random()) * PERIOD_S, self._step)

    def _report(self, now_s: float, of: tuple[int, CpuMeter]) -> None:
        index, meter = of
        self._engine.at(now_s + self._delays.sample_s, self._take, (index, meter.read(now_s)))
        self._engine.at(now_s + PERIOD_S, self._report, of)

    def _take(self, _now_s: float, of: tuple[int, float]) -> None:
        self._load[of[0]] = of[1]

    def _step(self, now_s: float, _nothing: object) -> None:
        for upstream, service in enumerate(self._services):
            own = self._balancers[upstream :: len(self._services)]
            away = own[0].away
            load = [None if server in away else used for server, used in enumerate(self._load)]
            weights = [round(WHOLE * weight) for weight in service.step(load)]
            self._engine.at(
                now_s + self._delays.publish_s + self._delays.fetch_s, self._publish, (own, weights)
            )
        self._engine.at(now_s + PERIOD_S, self._step)

    def _publish(self, _now_s: float, of: tuple[Sequence[Balancer], list[int]]) -> None:
        for balancer in of[0]:
            balancer.take(of[1])
