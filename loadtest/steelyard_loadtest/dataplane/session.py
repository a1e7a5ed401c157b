"""A run: contenders are compare's balancers, and ours follow tables; it may be interrupted (I/O)."""

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steelyard_protocol import weight_table, wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable
from steelyard_protocol.weight_table import TablePeer, WeightTable

from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.compare.schedule import visits
from steelyard_loadtest.dataplane.contenders import BY_NAME, COST, peers
from steelyard_loadtest.dataplane.report import CPU, P99
from steelyard_loadtest.figures.trial_figures import figures
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.machine.repeating import repeating
from steelyard_loadtest.measurements.trials import Measured, Missing, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import number
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import Algorithm
from steelyard_loadtest.scenario.definition import Load, Scenario, Server
from steelyard_loadtest.trial import RunningSetup, measure, place_for

CONNECTIONS = 64

AROUND_S = 4.0
"""Approximate time to start a proxy, warm it up and stop it."""

WARM_CYCLES = 1.5
"""One cycle opens a connection to every server; half of one more fills the pools and the code cache."""

MOST_WARM_UPS = 20

TICK_S = 1.0

ANSWER_S = 5.0
"""Long enough for a machine that is measured at its limit."""

TTL_S = 86_400
"""Each table is published again every second, and stays long enough for any measurement."""


class Contender(Balancer):
    """A contender in front of servers of these weights; ours follows a table published every second.

    No controller runs. hash_key: the table's.
    """

    def __init__(
        self, algorithm: Algorithm, peers: Sequence[TablePeer], scenario: Scenario, place: Place,
        clients: int = CONNECTIONS, hash_key: str | None = None,
    ) -> None:  # fmt: skip
        self._peers, self._hash_key = tuple(peers), hash_key
        self._generation = 0
        self._memcached = MemcachedClient((HOST, place.memcached_port), timeout_s=ANSWER_S)
        scenario = replace(
            scenario, servers=tuple(Server(name=one.id, weight=one.weight) for one in self._peers)
        )
        addresses = {one.id: one.address for one in self._peers}
        super().__init__(replace(algorithm, law=""), scenario, addresses, place, clients)

    def load(self, servers: Servers, trial: Trial, load: Load) -> Measured:
        """Load it by wrk, over CONNECTIONS kept ones. Raises ProgramError."""
        setup = RunningSetup(
            scenario=replace(self._scenario, load=load),
            place=self._place,
            servers=servers,
            balancer=self,
            rates={trial.level: CONNECTIONS},
        )
        entry = measure(setup, trial, first=False)
        if not entry.outcome.quantiles:
            raise ProgramError("wrk got no answer from the proxy")
        return entry

    def warm_up(self, servers: Servers, trial: Trial) -> None:
        """Load it until the connections to all servers are open. Raises ProgramError."""
        left = WARM_CYCLES * sum(self._scenario.weights.values())
        for _ in range(MOST_WARM_UPS):
            load = replace(self._scenario.load, seconds=1)
            left -= self.load(servers, trial, load).outcome.requests
            if left <= 0:
                return

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        if self._algorithm.ours:
            stack.enter_context(contextlib.closing(self._memcached))
            self._publish()
            stack.enter_context(repeating(self._publish, interval_s=TICK_S))
        super()._start(stack, cpus)

    def _publish(self) -> None:
        """Do the controller's part: put the weights into Memcached with the next generation."""
        self._generation += 1
        table = WeightTable(
            upstream=UPSTREAM, term=1, generation=self._generation, issued_at_ms=int(time.time() * 1000),
            law="static", picker=self._algorithm.method, hash_key=self._hash_key,
            reporters=("edge-1",), peers=self._peers,
        )  # fmt: skip
        try:
            self._memcached.put(wire.weights_key(UPSTREAM), weight_table.encode(table), ttl_s=TTL_S)
        except Unavailable as error:
            raise ProgramError(f"Memcached does not take the weight table: {error}") from None


def run(scenario: Scenario, programs: Programs, folder: Path) -> Results:
    """Measure the cost of a request; Ctrl-C ends it early.

    The scenario's levels are numbers of servers, each with servers of its own. Raises SetupError when it
    cannot begin.
    """
    results = Results(scenarios=(scenario,))
    for one in (BY_NAME[name] for name in scenario.algorithms):
        if why := programs.why_missing(one.program, one.method):
            results.missing.append(Missing(scenario=COST, algorithm=one.title, why=why))
            print(f"not measured: {one.title}: {why}", file=sys.stderr)
    missing = {entry.algorithm for entry in results.missing}
    here = tuple(name for name in scenario.algorithms if BY_NAME[name].title not in missing)
    steps = [trial for _, trials in visits(scenario, here) for trial in trials]
    guess_s = AROUND_S + scenario.load.seconds
    # Tables come from Memcached, if there is one, and never from a controller.
    place = replace(place_for(scenario, folder, programs), redis_port=0, api_port=0, follow_port=0)
    place = place if programs.memcached else replace(place, memcached_port=0)
    with Progress(sys.stderr, steps=len(steps), expected_s=len(steps) * guess_s) as progress:
        try:
            with Servers(scenario, place) as servers:
                for step in steps:
                    name = f"{BY_NAME[step.algorithm].title}, {step.level:g} servers"
                    progress.begin(f"round {step.repeat}, {name}")
                    try:
                        weighted = peers(int(step.level), *place.server_ports)
                        with Contender(BY_NAME[step.algorithm], weighted, scenario, place) as contender:
                            contender.warm_up(servers, step)
                            entry = contender.load(servers, step, scenario.load)
                    except (ProgramError, SetupError) as error:
                        results.missing.append(Missing(scenario=COST, algorithm=name, why=str(error)))
                        progress.end(f"failed: {error}")
                    else:
                        results.measured.append(entry)
                        progress.end(_summary(entry))
        except KeyboardInterrupt:
            results.interrupted = True
    return results


def _summary(entry: Measured) -> str:
    """Write a measurement for the progress line."""
    known, failures = figures(entry, ()).metrics, entry.outcome.failures
    text = f"{number(known[CPU], 1)} µs CPU, {known['requests_per_s']:,.0f} requests/s"
    return f"{text}, p99 {number(known[P99], 2)} ms" + (f", {failures} FAILED" if failures else "")
