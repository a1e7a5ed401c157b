"""The control loop of a run: agents sample, balancers report, the law steps, tables are fetched.

Pure but for the generator passed in. The law is the controller's own, on a real `Snapshot`.
"""

from collections import deque
from dataclasses import replace
from random import Random

import numpy as np
from steelyard_controller import laws
from steelyard_controller.laws.headroom import headroom
from steelyard_controller.laws.parameters import law_total
from steelyard_controller.laws.quantize import quantize
from steelyard_controller.laws.zones import Zoning
from steelyard_protocol.clock_phase import CONTROLLER_S, SPREAD_S

from steelyard_simulator.autoscaler import Pool
from steelyard_simulator.balancer import Balancer
from steelyard_simulator.engine import Engine
from steelyard_simulator.known_parts import KnownParts, integers
from steelyard_simulator.model import Case, Floats, Ints, Server
from steelyard_simulator.simulated_inbox import SimulatedInbox
from steelyard_simulator.simulated_server import SimulatedServer

# As in openresty/steelyard/lib/steelyard/core/clock_phase.lua: nginx's instant, and its spread.
REPORT_S, FETCH_S, BALANCER_SPREAD_S = 0.02, 0.25, 0.03


def bootstrap_weights(servers: tuple[Server, ...]) -> list[int]:
    """Return the weights before the first table: the baselines as whole numbers; unknown ones are 1."""
    given = np.array([1.0 if server.baseline is None else server.baseline for server in servers])
    whole = np.rint(given).astype(np.int64)
    if (whole != given).any():
        whole = quantize(given, law_total(0, len(given)))
    weights: list[int] = whole.tolist()
    return weights


class ControlLoop:
    """The loop around one controller; its lists grow by a row a tick.

    If the case is in phase, everybody acts at the product's instants of a tick that begins at a random
    moment. Otherwise agents and balancers have phases of their own. `first_tick_s` is when the controller
    ticks first.
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
        self._engine, self._servers, self._tick_s, self._case = engine, servers, case.tick_s, case
        self._delays = case.delays
        self._law = laws.create(case.balancing.law, case.balancing.parameters)
        self._upstreams = [
            _Upstream(self._law.start(), SimulatedInbox(case), case) for _ in range(case.upstreams)
        ]
        self._balancers = balancers
        self._pool = None if case.scaled_by is None else Pool(engine, case.scaled_by, len(servers))
        self.t_s: list[float] = []
        self.shares: list[Floats] = []
        self.utilization: list[Floats] = []
        tick_s, begins_s = case.tick_s, random.random() * case.tick_s if case.in_phase else 0.0

        def phase_s(instant_s: float, spread_s: float) -> float:
            share = random.random()
            if not case.in_phase:
                return share * tick_s
            return (begins_s + instant_s + share * spread_s * min(1.0, tick_s)) % tick_s

        for server, declared in enumerate(case.servers):
            first_s = phase_s(0.0, SPREAD_S)
            if declared.sampled:
                engine.at(first_s, self._sample, server)
        for balancer in balancers:
            engine.at(phase_s(REPORT_S, BALANCER_SPREAD_S), self._report, balancer)
            engine.at(phase_s(FETCH_S, BALANCER_SPREAD_S), self._fetch, (balancer, None))
        self.first_tick_s = (begins_s + CONTROLLER_S) % tick_s if case.in_phase else tick_s
        engine.at(self.first_tick_s, self._tick)
        for upstream in self._upstreams:
            for change_s in upstream.known.changes_s if upstream.known else ():
                engine.at(max(change_s, self.first_tick_s), self._follow, upstream)

    def _sample(self, now_s: float, server: int) -> None:
        sample = self._servers[server].sample(now_s)
        for upstream in self._upstreams:
            upstream.inbox.sample(now_s, server, sample)
        self._engine.at(now_s + self._tick_s, self._sample, server)

    def _report(self, now_s: float, balancer: Balancer) -> None:
        report = balancer.report()
        silent_from_s, silent_until_s = self._delays.silent_s
        if not silent_from_s <= now_s < silent_until_s:
            self._upstream_of(balancer).inbox.report(now_s, balancer.index, report)
        self._engine.at(now_s + self._tick_s, self._report, balancer)

    def cpu(self) -> Floats:
        """Return the servers' CPU from the newest samples; NaN before the first."""
        return self._upstreams[0].inbox.cpu

    def _fetch(self, now_s: float, of: tuple[Balancer, list[int] | None]) -> None:
        """Take the newest available table; the ring has it after the fetch's own delay."""
        balancer, before = of
        newest = before
        for published_s, tables in self._upstream_of(balancer).tables:
            if published_s <= now_s:
                newest = tables[balancer.zone if len(tables) > 1 else 0]
        if newest is not before:
            self._engine.at(now_s + self._delays.fetch_s, lambda _, table: balancer.take(table), newest)
        self._engine.at(now_s + self._tick_s, self._fetch, (balancer, newest))

    def _follow(self, now_s: float, upstream: "_Upstream") -> None:
        """Give the load balancers of an upstream its weights of this moment, without a message."""
        if upstream.known is not None:
            table = integers(upstream.known.at(now_s), int(upstream.weights.sum()))
            for balancer in self._balancers:
                if self._upstream_of(balancer) is upstream:
                    balancer.take(table)

    def _upstream_of(self, balancer: Balancer) -> "_Upstream":
        return self._upstreams[balancer.index % len(self._upstreams)]

    def _tick(self, now_s: float, _nothing: object) -> None:
        """Step the law of every upstream; only the first one is recorded."""
        for upstream in self._upstreams:
            self._step(now_s, upstream)
        first = self._upstreams[0]
        self.t_s.append(now_s)
        self.shares.append(first.weights / first.weights.sum())
        self.utilization.append(first.inbox.cpu.copy())
        self._engine.at(now_s + self._tick_s, self._tick)

    def _step(self, now_s: float, upstream: "_Upstream") -> None:
        snapshot, pool, tables = upstream.inbox.snapshot(now_s), self._pool, upstream.tables
        if pool is not None:
            snapshot = snapshot.first(pool.there, pool.names)
        elif upstream.zoning is not None:
            seen = upstream.inbox.flows(self._case.zones, upstream.zoning)
            upstream.zoning = upstream.zoning.after(seen, snapshot.tick_s)
            snapshot = replace(snapshot, published=upstream.zoning.followed(upstream.weights, seen))
        if upstream.known is not None and upstream.weights.any():
            snapshot = replace(snapshot, published=upstream.weights.astype(float))
        upstream.memory, decision = self._law.step(upstream.memory, snapshot)
        if pool is not None:
            pool.note(decision, snapshot, upstream.inbox.cpu)
        upstream.weights = np.pad(decision.published, (0, len(self._servers) - len(decision.ids)))
        if upstream.known is not None:
            upstream.weights = np.array(integers(upstream.known.after(decision, now_s), decision.total))
            if upstream.known.changes_s:
                self._follow(now_s, upstream)
                return
        published: list[list[int]] = [upstream.weights.tolist()]
        if upstream.zoning is not None:
            weights = np.where(snapshot.eligible, decision.published, 0)
            share = weights / weights.sum()
            could = headroom(decision, (), share, share > 0, None).could_carry_per_s
            upstream.zoning = upstream.zoning.decide(share, could)
            published = (upstream.zoning.factors[:-1, upstream.zoning.of] * decision.published).tolist()
        # An identical table needs no fetch.
        if not tables or published != tables[-1][1]:
            tables.append((now_s + self._delays.publish_s, published))
        # The newest available table replaces all earlier ones.
        while len(tables) > 1 and tables[1][0] <= now_s:
            tables.popleft()


class _Upstream:
    """The controller's state of one upstream; `tables`: (when it is in Memcached, weights), in order."""

    __slots__ = ("inbox", "known", "memory", "tables", "weights", "zoning")

    def __init__(self, memory: laws.Memory, inbox: SimulatedInbox, case: Case) -> None:
        self.memory, self.inbox = memory, inbox
        self.tables: deque[tuple[float, list[list[int]]]] = deque()
        self.weights: Ints = np.zeros(len(case.servers), dtype=np.int64)
        self.known = KnownParts(case) if case.balancing.known else None
        zones = [server.zone for server in case.servers]
        self.zoning = Zoning.of_peers(zones, max(zones) + 1) if case.balancing.zoned == "steelyard" else None
