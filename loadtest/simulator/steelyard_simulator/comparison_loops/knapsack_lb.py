"""KnapsackLB, for comparison: weights from each server's curve of latency over weight, as a knapsack problem.

Pure. Source: R. Gandhi and S. Narayana, *KnapsackLB: Enabling Performance-Aware Layer-4 Load Balancing*
(arXiv 2404.17783), of which the abstract and summaries could be read. Published there: active probes
measure each server's latency; no agent runs on servers, load balancers or clients. A curve fitted to few
measurements maps a server's weight to its latency. An integer linear program chooses the weights of the
least average latency, in two steps for many servers. Curves are adjusted when traffic shifts or a capacity
changes.

    l_j(r) = a_j + b_j r + c_j r^2            r: requests a second; fitted to POINTS measurements
    minimize  sum of w_j l_j(s_j w_j)         w_j: multiples of a unit, at least one, with the sum 1
    s_j <- s_j r / (s_j w_j),  l_j(r) = L_j   unless FASTER <= L_j / l_j <= SLOWER, as measured

Not readable there, and chosen here:

- Curves are known from the start, measured offline: each server as it is at the beginning, up to SLOWEST
  times its idle latency. Queueing formulas (Erlang's, and Allen and Cunneen's for the variance) stand for
  the measurements, so the curves have no noise.
- Probes take no capacity: L_j is the mean latency of the period's own requests.
- The average latency is over requests, and dynamic programming solves the program exactly in one step.
- PERIOD_S, when a curve is adjusted and by how much at most, on clusters of three to six servers of our own.
  A mean over seconds of a busy server is off its curve by chance; adjusted at a fifth, the weights wander.
- Without enough capacity, weights are in proportion to the most that each server can take.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np

from steelyard_simulator.balancer import Balancer
from steelyard_simulator.engine import Engine
from steelyard_simulator.model import Case, Delays, Draw, Floats, OpenClients, Server, Work
from steelyard_simulator.simulated_server import SimulatedServer, speed_at

PERIOD_S = 5.0
POINTS, SLOWEST = 10, 5.0
SLOWER, MOST_SLOWER = 3.0, 2.0
"""Measured latency over the curve's from which a server counts as slower, and the bound of one adjustment."""

FASTER, MOST_FASTER = 0.5, 1.1
"""The same, from which it counts as faster than its curve."""

UNITS, UNITS_EACH = 100, 10
"""The sum of all weights in units: at least UNITS, and UNITS_EACH for each server."""

FEWEST_ANSWERS = 10
"""A mean over fewer requests in a period is no measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A server's latency in seconds by requests a second: a + b r + c r^2, up to `most`."""

    a: float
    b: float
    c: float
    most: float

    def latency_s(self, rate: Floats) -> Floats:
        """Return the latency at these rates."""
        return self.a + rate * (self.b + rate * self.c)

    def rate(self, latency_s: float) -> float:
        """Return the rate at which the latency is this, from 0 to a fifth above `most`."""
        if latency_s <= self.a or self.b + self.c <= 0:
            return 0.0
        over = latency_s - self.a
        # This form of the root has no cancellation, and none of its terms vanishes with c.
        root = 2.0 * over / (self.b + sqrt(self.b * self.b + 4.0 * self.c * over))
        return min(root, 1.2 * self.most)


def waiting_s(rate: float, channels: int, service: Draw, mean_s: float) -> float:
    """Return the mean wait for one of some channels: Erlang's C, with Allen and Cunneen's factor."""
    offered = rate * mean_s
    if offered >= channels:
        return float("inf")
    blocked = 1.0
    for number in range(1, channels + 1):
        blocked = offered * blocked / (number + offered * blocked)
    wait = blocked / (1.0 - offered / channels * (1.0 - blocked))
    varied = {"constant": 0.0, "exponential": 1.0}.get(service.shape, service.cv**2)
    return wait * mean_s / (channels - offered) * (1.0 + varied) / 2.0


def curve_of(server: Server, work: Work) -> Curve:
    """Measure a server offline, as it is at the start: its latency at evenly spaced rates, and the fit."""
    queues = [
        (channels, draw, draw.mean_s / speed)
        for channels, draw, speed in (
            (server.cores, work.cpu, speed_at(server, 0.0)),
            (server.io_channels, work.io, 1.0),
        )
        if draw.mean_s > 0
    ]
    idle_s = sum(mean_s for *_, mean_s in queues) + work.latency.mean_s + server.latency.mean_s

    def latency_s(rate: float) -> float:
        return idle_s + sum(waiting_s(rate, *queue) for queue in queues)

    if not queues:
        return Curve(a=idle_s, b=0.0, c=0.0, most=float("inf"))
    low, most = 0.0, min(channels / mean_s for channels, _, mean_s in queues)
    for _ in range(40):
        middle = (low + most) / 2
        low, most = (middle, most) if latency_s(middle) <= SLOWEST * idle_s else (low, middle)
    rates = np.linspace(0.0, low, POINTS)
    measured = np.array([latency_s(rate) for rate in rates.tolist()])
    # Latency does not fall with load; where the best fit would, it has no linear term.
    terms = np.stack([rates, rates**2], axis=1)
    b, c = np.linalg.lstsq(terms, measured - idle_s, rcond=None)[0].tolist()
    if b < 0:
        b, c = 0.0, float(terms[:, 1] @ (measured - idle_s) / (terms[:, 1] @ terms[:, 1]))
    return Curve(a=idle_s, b=b, c=max(c, 0.0), most=low)


def best_units(curves: Sequence[Curve], scales: Sequence[float], units: int) -> list[int]:
    """Return each server's units of weight: the least average latency, or all that it can take.

    curves, scales: of each server; a scale is its rate with all the weight, above 0. The sum is `units`, at
    least one for each.
    """
    bounds = [
        max(int(min(units * curve.most / scale, units)), 1)
        for curve, scale in zip(curves, scales, strict=True)
    ]
    if sum(bounds) < units:
        return [max(round(units * bound / sum(bounds)), 1) for bound in bounds]
    # cost[n]: the least sum for the servers so far with n units in all.
    cost = np.full(units + 1, np.inf)
    cost[0], chosen = 0.0, []
    for curve, scale, bound in zip(curves, scales, bounds, strict=True):
        weights = np.arange(1, bound + 1) / units
        its = weights * curve.latency_s(scale * weights)
        following, picked = np.full(units + 1, np.inf), np.zeros(units + 1, dtype=np.int64)
        for number, value in enumerate(its.tolist(), 1):
            with_it = cost[: units + 1 - number] + value
            better = with_it < following[number:]
            following[number:][better], picked[number:][better] = with_it[better], number
        cost = following
        chosen.append(picked)
    left, result = units, list[int]()
    for picked in reversed(chosen):
        result.append(int(picked[left]))
        left -= result[-1]
    return result[::-1]


class KnapsackLb:
    """The controller of each upstream's weights."""

    def __init__(self, case: Case, seed: int) -> None:  # noqa: ARG002 - a loop's
        self._engine: Engine
        self._delays: Delays = case.delays
        curve = cache(curve_of)
        self._curves = [curve(server, case.work) for server in case.servers]
        clients = case.clients
        rate = (
            clients.rate_per_s if isinstance(clients, OpenClients) else clients.clients / clients.interval_s
        )
        self._first_rate = max(rate, 1.0) / case.upstreams
        self._scales = [[self._first_rate] * len(case.servers) for _ in range(case.upstreams)]
        self._shares = [[1.0 / len(case.servers)] * len(case.servers) for _ in range(case.upstreams)]
        self._balancers: Sequence[Balancer] = ()

    def begin(
        self,
        engine: Engine,
        servers: Sequence[SimulatedServer],  # noqa: ARG002 - a loop's
        balancers: Sequence[Balancer],
    ) -> None:
        """Publish the weights of the offline curves, and begin the periods."""
        self._engine, self._balancers = engine, balancers
        for upstream in range(len(self._scales)):
            self._solve(0.0, upstream)
        engine.at(PERIOD_S, self._step)

    def _step(self, now_s: float, _nothing: object) -> None:
        for upstream in range(len(self._scales)):
            own = self._balancers[upstream :: len(self._scales)]
            completed, _, _, latency_s, _ = np.sum([each.report() for each in own], axis=0)
            for server, answers in enumerate(completed.tolist()):
                if answers >= FEWEST_ANSWERS:
                    self._adjust(upstream, server, float(latency_s[server]) / answers)
            self._solve(now_s, upstream)
        self._engine.at(now_s + PERIOD_S, self._step)

    def _adjust(self, upstream: int, server: int, measured_s: float) -> None:
        """Move a curve along its weights until it explains the measured latency."""
        curve, scales, share = self._curves[server], self._scales[upstream], self._shares[upstream][server]
        expected_s = float(curve.latency_s(np.array([scales[server] * share]))[0])
        if share > 0 and not FASTER * expected_s <= measured_s <= SLOWER * expected_s:
            factor = curve.rate(measured_s) / (scales[server] * share)
            moved = scales[server] * max(1.0 / MOST_FASTER, min(factor, MOST_SLOWER))
            # An idle latency fits any small rate: it is no reason to expect ten times as much.
            scales[server] = max(self._first_rate / 10, min(moved, self._first_rate * 100))

    def _solve(self, now_s: float, upstream: int) -> None:
        own = self._balancers[upstream :: len(self._scales)]
        present = [server for server in range(len(self._curves)) if server not in own[0].away]
        units = max(UNITS, UNITS_EACH * len(present))
        best = best_units(
            [self._curves[server] for server in present],
            [self._scales[upstream][server] for server in present],
            units,
        )
        weights = [1] * len(self._curves)
        for server, number in zip(present, best, strict=True):
            weights[server] = number
        self._shares[upstream] = [
            number / sum(best) if server in present else 0.0 for server, number in enumerate(weights)
        ]
        self._engine.at(now_s + self._delays.publish_s + self._delays.fetch_s, self._publish, (own, weights))

    def _publish(self, _now_s: float, of: tuple[Sequence[Balancer], list[int]]) -> None:
        for balancer in of[0]:
            balancer.take(of[1])
