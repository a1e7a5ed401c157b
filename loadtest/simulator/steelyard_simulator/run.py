"""Run a case: `run(case, seed)` gives its result, the same for the same seed."""

import time
from array import array
from collections.abc import Callable
from functools import cache
from math import log
from random import Random
from typing import cast, get_args

import numpy as np
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize

from steelyard_simulator import autoscaler, comparison_loops, pickers
from steelyard_simulator.balancer import Balancer, Request
from steelyard_simulator.control_loop import ControlLoop, bootstrap_weights
from steelyard_simulator.engine import Engine, Rate, sampler, stream
from steelyard_simulator.model import Case, OpenClients, PeriodicClients, RunResult, Ticks
from steelyard_simulator.pickers import by_zone, lua_pickers
from steelyard_simulator.simulated_server import SimulatedServer, able_at, is_away, speed_edges, speed_of


def run(case: Case, seed: int) -> RunResult:
    """Simulate the case once; deterministic in (case, seed) except for measured fields.

    Raises ValueError for an unknown law, parameter, picker or loop, and SetupError if the Lua pickers cannot
    run.
    """
    running = _Running(case, seed)
    began_s = time.process_time()
    running.engine.run(case.duration_s)
    return running.result(time.process_time() - began_s)


class _Running:
    """All parts of one run, connected."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case = case
        self.engine = Engine()
        k = len(case.servers)
        self._sent_s, self._latency_s = array("d"), array("d")
        self._arrived = self._served = self._failed = 0
        self._picks, self._counted = [0] * k, [0] * k
        self._ticks: list[list[int]] = []
        work = stream(seed, "work")
        # Ten thousand servers are of a few kinds, which share their samplers and speeds.
        speed, drawn = cache(speed_of), cache(lambda draw: sampler(draw, work))
        self._servers = [
            SimulatedServer(
                self.engine, server, case.work, work, self._answered, speed=speed(server), drawn=drawn
            )
            for server in case.servers
        ]
        self._enter = [server.entrance for server in self._servers]
        make = pickers.maker(case, seed)
        zones = case.zones or (0,) * (case.balancers * case.upstreams)
        if case.balancing.zoned in get_args(by_zone.EnvoyRule):
            make = by_zone.maker(make, case, seed)
        self._zones, self._crossed, self._crossed_by_tick = [s.zone for s in case.servers], 0, [0]
        self._cost = self._servers[0].draws_first if case.balancing.priced else None
        weights = bootstrap_weights(case.servers)
        if case.scaled_by is not None:
            weights[autoscaler.LEAST :] = [0] * (k - autoscaler.LEAST)
        self._balancers = [Balancer(index, make(index), k, zone) for index, zone in enumerate(zones)]
        for balancer in self._balancers:
            balancer.take(weights)
        loop = comparison_loops.create(case, seed)
        if loop is not None:
            loop.begin(self.engine, self._servers, self._balancers)
        self._split, self._held = stream(seed, "split").random, stream(seed, "held").random
        self._control = (
            None
            if case.balancing.law is None
            else ControlLoop(self.engine, case, self._servers, self._balancers, stream(seed, "control"))
        )
        if case.exchanges_s and case.balancing.picker in pickers.OURS:
            self._begin_exchanges(case.exchanges_s, stream(seed, "exchange"))
        for balancer in self._balancers:
            if self._control is not None and isinstance(balancer.picker, by_zone.ByZone):
                balancer.picker.utilization = self._control.cpu
        self._foresee_changes()
        self._begin_arrivals(stream(seed, "arrivals"))
        # After the controller's own event, so that a row holds the picks up to its tick.
        first_tick_s = case.tick_s if self._control is None else self._control.first_tick_s
        self.engine.at(first_tick_s, self._count)

    def _begin_exchanges(self, every_s: float, random: Random) -> None:
        lost = self._case.lost_exchanges

        def exchange(now_s: float, tell: Callable[[float], None]) -> None:
            if not lost or random.random() >= lost:
                tell(now_s)
            self.engine.at(now_s + every_s, exchange, tell)

        for balancer in self._balancers:
            tell = cast(lua_pickers.LuaPicker, balancer.picker).exchange
            self.engine.at(random.random() * every_s, exchange, tell)

    def _foresee_changes(self) -> None:
        """Schedule who is away and, with true weights, the servers' capacities from then on."""
        servers, true_weights = self._case.servers, self._case.balancing.true_weights

        def change(now_s: float, _nothing: object) -> None:
            away = frozenset(index for index, server in enumerate(servers) if is_away(server, now_s))
            able = np.array([able_at(server, self._case.work, now_s) for server in servers])
            for index, server in enumerate(servers):
                if server.pinned is not None:
                    able[index] = server.pinned / (1.0 - server.pinned) * (able.sum() - able[index])
            true: list[int] = quantize(able, law_total(0, len(able))).tolist()
            for balancer in self._balancers:
                balancer.away = away
                balancer.close(now_s)
                balancer.take(true if true_weights else balancer.weights)

        changing = [server for server in servers if true_weights or server.away]
        for edge_s in sorted({edge for server in changing for edge in speed_edges(server)}):
            self.engine.at(edge_s, change)

    def _begin_arrivals(self, random: Random) -> None:
        clients = self._case.clients
        if isinstance(clients, OpenClients):
            self._arrive_openly(clients, random)
        else:
            for client in range(clients.clients):
                if client * clients.stagger_s <= self._case.duration_s and clients.requests > 0:
                    begin = (client, clients.requests, clients)
                    self.engine.at(client * clients.stagger_s, self._arrive_periodically, begin)

    def _arrive_openly(self, clients: OpenClients, random: Random) -> None:
        """Send at the rate of the moment."""
        rate = Rate(((0.0, clients.rate_per_s), *clients.changes))
        uniform, poisson = random.random, clients.arrivals == "poisson"

        def arrive(now_s: float, is_first: bool | None) -> None:
            # The next arrival is a drawn number of mean gaps away, counted across changes of the rate.
            when_s = rate.end(now_s, -log(1.0 - uniform()) if poisson else 1.0)
            if when_s <= self._case.duration_s:
                self.engine.at(when_s, arrive)
            if not is_first:
                self._send(now_s, -1)

        arrive(0.0, True)

    def _arrive_periodically(self, now_s: float, of: tuple[int, int, PeriodicClients]) -> None:
        client, left, clients = of
        next_s = now_s + clients.interval_s
        if left > 1 and next_s <= self._case.duration_s:
            self.engine.at(next_s, self._arrive_periodically, (client, left - 1, clients))
        self._send(now_s, client)

    def _send(self, now_s: float, client: int) -> None:
        balancers = self._balancers
        if client >= 0:
            balancer = balancers[client % len(balancers)]
        elif len(balancers) == 1:
            balancer = balancers[0]
        else:
            balancer = balancers[int(self._split() * len(balancers))]
        request = Request(now_s, balancer)
        if self._cost is not None:
            request.cost = self._cost()
        server = balancer.pick(now_s, request)
        self._arrived += 1
        self._picks[server] += 1
        self._crossed += self._zones[server] != balancer.zone
        self._enter[server](now_s, request)

    def _answered(self, now_s: float, request: Request) -> None:
        held = self._case.work.held
        request.balancer.answered(now_s, request, request.ok and held > 0.0 and self._held() < held)
        if request.ok:
            self._served += 1
            if request.sent_s >= self._case.warmup_s:
                self._sent_s.append(request.sent_s)
                self._latency_s.append(now_s - request.sent_s)
        else:
            self._failed += 1

    def _count(self, now_s: float, _nothing: object) -> None:
        """Close the tick's row of picks."""
        self._ticks.append([now - before for now, before in zip(self._picks, self._counted, strict=True)])
        self._counted = self._picks.copy()
        self._crossed_by_tick.append(self._crossed)
        self.engine.at(now_s + self._case.tick_s, self._count)

    def result(self, cpu_s: float) -> RunResult:
        """Return the result so far."""
        k, rows, control = len(self._servers), len(self._ticks), self._control
        if control is None:
            weights = np.array(bootstrap_weights(self._case.servers), dtype=float)
            t_s = [row * self._case.tick_s for row in range(1, rows + 1)]
            shares, utilization = [weights / weights.sum()] * rows, [np.full(k, np.nan)] * rows
        else:
            t_s, shares, utilization = control.t_s, control.shares, control.utilization
        return RunResult(
            sent_s=np.array(self._sent_s),
            latency_ms=np.array(self._latency_s) * 1000.0,
            arrived=self._arrived,
            served=self._served,
            failed=self._failed,
            in_flight=self._arrived - self._served - self._failed,
            requests_per_server=np.array(self._picks, dtype=np.int64),
            ticks=Ticks(
                t_s=np.array(t_s),
                weights=np.array(shares).reshape(rows, k),
                picks=np.array(self._ticks, dtype=np.int64).reshape(rows, k),
                utilization=np.array(utilization).reshape(rows, k),
                crossed=np.array(self._crossed_by_tick[1:], dtype=np.int64) - self._crossed_by_tick[:-1],
            ),
            events=self.engine.events,
            cpu_s=cpu_s,
        )
