"""Run a case: `run(case, seed)` gives its result, the same for the same seed."""

import time
from array import array
from functools import cache
from random import Random

import numpy as np

from steelyard_loadtest.simulate import pickers
from steelyard_loadtest.simulate.arrivals import Send, closed_arrivals, open_arrivals, periodic_arrivals
from steelyard_loadtest.simulate.balancer import Balancer
from steelyard_loadtest.simulate.control import Control, bootstrap_weights
from steelyard_loadtest.simulate.draws import sampler, stream
from steelyard_loadtest.simulate.engine import Engine
from steelyard_loadtest.simulate.model import Case, ClosedClients, OpenClients, RunResult, Ticks
from steelyard_loadtest.simulate.request import Request
from steelyard_loadtest.simulate.site import Site
from steelyard_loadtest.simulate.speed import Speed

# A key of its own for every request: no two of a billion are alike, or hardly.
ANY_KEY = 1 << 63


def run(case: Case, seed: int) -> RunResult:
    """Simulate the case once; deterministic in (case, seed) but for the fields that are measured.

    Raises ValueError for an unknown law, parameter or picker, and SetupError where the Lua
    pickers cannot run.
    """
    running = _Running(case, seed)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    running.engine.run(case.duration_s)
    return running.result(time.perf_counter() - began_s, time.process_time() - began_cpu_s)


class _Running:
    """Everything of one run, tied together."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._seed = case, seed
        self.engine = Engine()
        k = len(case.servers)
        self._sent_s, self._latency_s, self._server = array("d"), array("d"), array("q")
        self._arrived = self._served = self._failed = 0
        self._picks, self._counted = [0] * k, [0] * k
        self._ticks: list[list[int]] = []
        work = stream(seed, "work")
        leave = self._leave if case.network_s else self._answered
        # Ten thousand servers are of a few kinds.
        speed_of, drawn = cache(Speed), cache(lambda draw: sampler(draw, work))
        self._sites = [
            Site(self.engine, server, case.work, work, leave, speed=speed_of(server), drawn=drawn)
            for server in case.servers
        ]
        self._enter = [site.entrance for site in self._sites]
        make = pickers.maker(case.balancing.picker, servers=k, seed=seed)
        weights = bootstrap_weights(case.servers)
        self._balancers = [Balancer(index, make(index), k) for index in range(case.balancers)]
        for balancer in self._balancers:
            balancer.picker.update(weights)
        self._split, self._keys = stream(seed, "split").random, stream(seed, "keys").randrange
        self._wants_key = self._balancers[0].picker.wants_key
        self._control = (
            None
            if case.balancing.law is None
            else Control(self.engine, case, self._sites, self._balancers, stream(seed, "control"))
        )
        self._again = self._arrivals(stream(seed, "arrivals"))
        # After the controller's own, so that a row holds the picks up to its tick.
        self.engine.at(case.tick_s, self._count)

    def _arrivals(self, random: Random) -> Send | None:
        clients, until_s = self._case.clients, self._case.duration_s
        if isinstance(clients, OpenClients):
            open_arrivals(self.engine, clients, random, until_s, self._send)
        elif isinstance(clients, ClosedClients):
            return closed_arrivals(self.engine, clients, random, until_s, self._send)
        else:
            periodic_arrivals(self.engine, clients, until_s, self._send)
        return None

    def _send(self, now_s: float, client: int) -> None:
        balancers = self._balancers
        if client >= 0:
            balancer = balancers[client % len(balancers)]
        elif len(balancers) == 1:
            balancer = balancers[0]
        else:
            balancer = balancers[int(self._split() * len(balancers))]
        request = Request(now_s, client, balancer)
        key = self._keys(self._case.keys or ANY_KEY) if self._wants_key else 0
        server = balancer.pick(now_s, request, key)
        self._arrived += 1
        self._picks[server] += 1
        if self._case.network_s:
            self.engine.at(now_s + self._case.network_s, self._enter[server], request)
        else:
            self._enter[server](now_s, request)

    def _leave(self, now_s: float, request: Request) -> None:
        self.engine.at(now_s + self._case.network_s, self._answered, request)

    def _answered(self, now_s: float, request: Request) -> None:
        request.balancer.answered(now_s, request)
        if request.ok:
            self._served += 1
            if request.sent_s >= self._case.warmup_s:
                self._sent_s.append(request.sent_s)
                self._latency_s.append(now_s - request.sent_s)
                self._server.append(request.server)
        else:
            self._failed += 1
        if self._again is not None:
            self._again(now_s, request.client)

    def _count(self, now_s: float, _nothing: object) -> None:
        """Close the tick's row of picks."""
        self._ticks.append([now - before for now, before in zip(self._picks, self._counted, strict=True)])
        self._counted = self._picks.copy()
        self.engine.at(now_s + self._case.tick_s, self._count)

    def result(self, wall_s: float, cpu_s: float) -> RunResult:
        """Return what came out so far."""
        return RunResult(
            name=self._case.balancing.name,
            seed=self._seed,
            sent_s=np.array(self._sent_s),
            latency_ms=np.array(self._latency_s) * 1000.0,
            server=np.array(self._server, dtype=np.int64),
            arrived=self._arrived,
            served=self._served,
            failed=self._failed,
            in_flight=self._arrived - self._served - self._failed,
            requests_per_server=np.array(self._picks, dtype=np.int64),
            ticks=self._record(),
            events=self.engine.events,
            wall_s=wall_s,
            cpu_s=cpu_s,
        )

    def _record(self) -> Ticks:
        k, rows, control = len(self._sites), len(self._ticks), self._control
        picks = np.array(self._ticks, dtype=np.int64).reshape(rows, k)
        if control is None:
            weights = np.array(bootstrap_weights(self._case.servers), dtype=float)
            return Ticks(
                t_s=np.array([row * self._case.tick_s for row in range(1, rows + 1)]),
                weights=np.tile(weights / weights.sum(), (rows, 1)),
                picks=picks,
                utilization=np.full((rows, k), np.nan),
                law_cpu_s=np.zeros(rows),
            )
        return Ticks(
            t_s=np.array(control.t_s),
            weights=np.array(control.shares).reshape(rows, k),
            picks=picks,
            utilization=np.array(control.utilization).reshape(rows, k),
            law_cpu_s=np.array(control.law_cpu_s),
        )
