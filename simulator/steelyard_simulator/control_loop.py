"""The control loop of a run: agents sample, balancers report, the law steps, tables are fetched.

Pure but for the generator passed in. The law is the controller's own, on a real `Snapshot`.
"""

from collections import deque
from random import Random

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize

from steelyard_simulator.autoscaler import Pool
from steelyard_simulator.balancer import Balancer
from steelyard_simulator.engine import Engine
from steelyard_simulator.model import Case, Floats, Server
from steelyard_simulator.simulated_inbox import SimulatedInbox
from steelyard_simulator.simulated_server import SimulatedServer


def bootstrap_weights(servers: tuple[Server, ...]) -> list[int]:
    """Return the weights before the first table: the baselines as whole numbers; unknown ones count 1."""
    given = np.array([1.0 if server.baseline is None else server.baseline for server in servers])
    whole = np.rint(given).astype(np.int64)
    if (whole != given).any():
        whole = quantize(given, law_total(0, len(given)))
    weights: list[int] = whole.tolist()
    return weights


class ControlLoop:
    """The loop around one controller; the lists grow by a row a tick.

    Every agent and balancer has a phase of its own within the tick. The controller ticks at whole
    multiples of it, from the first on.
    """

    def __init__(
        self,
        engine: Engine,
        case: Case,
        servers: list[SimulatedServer],
        balancers: list[Balancer],
        random: Random,
    ) -> None:
        if case.balancing.law is None:
            raise ValueError("the case has no law; there is no control loop to run")
        self._engine, self._servers, self._tick_s = engine, servers, case.tick_s
        self._random, self._delays = random, case.delays
        self._law = laws.create(case.balancing.law, case.balancing.parameters)
        self._memory = self._law.start()
        self._inbox = SimulatedInbox(case)
        self._pool = None if case.scaled_by is None else Pool(engine, case.scaled_by, len(servers))
        # (when it is in Memcached, weights), in order.
        self._tables: deque[tuple[float, list[int]]] = deque()
        self.t_s: list[float] = []
        self.shares: list[Floats] = []
        self.utilization: list[Floats] = []
        for server in range(len(servers)):
            engine.at(random.random() * self._tick_s, self._sample, server)
        for balancer in balancers:
            engine.at(random.random() * self._tick_s, self._report, balancer)
            engine.at(random.random() * self._tick_s, self._fetch, (balancer, None))
        engine.at(self._tick_s, self._tick)

    def _sample(self, now_s: float, server: int) -> None:
        sample = self._servers[server].sample(now_s)
        if self._arrives(self._delays.lost_samples):
            self._inbox.sample(now_s, server, sample)
        self._engine.at(now_s + self._tick_s, self._sample, server)

    def _report(self, now_s: float, balancer: Balancer) -> None:
        report = balancer.report()
        if self._arrives(self._delays.lost_reports):
            self._inbox.report(now_s, balancer.index, report)
        self._engine.at(now_s + self._tick_s, self._report, balancer)

    def _arrives(self, lost: float) -> bool:
        return lost == 0.0 or self._random.random() >= lost

    def _fetch(self, now_s: float, of: tuple[Balancer, list[int] | None]) -> None:
        """Take the newest table that is there by now; the ring has it after the fetch's own delay."""
        balancer, before = of
        newest = before
        for published_s, weights in self._tables:
            if published_s <= now_s:
                newest = weights
        if newest is not before:
            self._engine.at(now_s + self._delays.fetch_s, _take, (balancer, newest))
        self._engine.at(now_s + self._tick_s, self._fetch, (balancer, newest))

    def _tick(self, now_s: float, _nothing: object) -> None:
        snapshot, pool = self._inbox.snapshot(now_s), self._pool
        if pool is not None:
            snapshot = snapshot.first(pool.there, pool.names)
        self._memory, decision = self._law.step(self._memory, snapshot)
        if pool is not None:
            pool.note(decision, snapshot, self._inbox.cpu)
        weights = np.pad(decision.published, (0, len(self._servers) - len(decision.ids)))
        published: list[int] = weights.tolist()
        # The same table again would be news to nobody.
        if not self._tables or published != self._tables[-1][1]:
            self._tables.append((now_s + self._delays.publish_s, published))
        # The newest that is there stands for all before it.
        while len(self._tables) > 1 and self._tables[1][0] <= now_s:
            self._tables.popleft()
        self.t_s.append(now_s)
        self.shares.append(weights / weights.sum())
        self.utilization.append(self._inbox.cpu.copy())
        self._engine.at(now_s + self._tick_s, self._tick)


def _take(_now_s: float, of: tuple[Balancer, list[int]]) -> None:
    balancer, weights = of
    balancer.take(weights)
