"""A run: contenders are compare's balancers, and ours follow tables; also when it was interrupted (I/O)."""

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steelyard_protocol import weight_table, wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable
from steelyard_protocol.weight_table import TablePeer, WeightTable

from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.compare.schedule import visits
from steelyard_loadtest.dataplane.contenders import AFTER, BASE, BEFORE, BY_NAME, COST, peers, reweighed
from steelyard_loadtest.dataplane.report import CPU, MANY, P99
from steelyard_loadtest.figures.trial_figures import figures
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.machine.repeating import repeating
from steelyard_loadtest.measurements.trials import Measured, Missing, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import number
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import steelyard_status
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import Algorithm
from steelyard_loadtest.scenario.definition import Load, Scenario, Server
from steelyard_loadtest.trial import Visit, measure, place_for

CONNECTIONS = 64

WINDOW_S = 5
"""Before and after a change of weights, each."""

THINKERS, THINK_MS = 16, 5
"""About 3000 requests/s: a tenth of what a proxy can do, so that a pause of it is seen as one."""

CHANGES = 2
"""There and back, so that a round ends with the weights that it began with."""

AROUND_S = 4.0
"""What starting a proxy, warming it up and stopping it take, about."""

WARM_CYCLES = 1.5
"""One cycle opens a connection to every server; half of one more fills the pools and the code cache."""

MOST_WARM_UPS = 20

TICK_S = 1.0

ANSWER_S = 5.0
"""Long enough for a machine that is measured at its limit."""

TTL_S = 86_400
"""The measurement goes on for minutes where the last table was put."""


class Contender(Balancer):
    """A contender before servers of these weights; ours follows a table that is published anew every second.

    No controller runs. hash_key: the table's.
    """

    def __init__(
        self, algorithm: Algorithm, peers: Sequence[TablePeer], scenario: Scenario, place: Place,
        clients: int = CONNECTIONS, hash_key: str | None = None,
    ) -> None:  # fmt: skip
        self._peers, self._hash_key = tuple(peers), hash_key
        self._generation, self._lock = 0, threading.Lock()
        self._memcached = MemcachedClient((HOST, place.memcached_port), timeout_s=ANSWER_S)
        scenario = replace(
            scenario, servers=tuple(Server(name=one.id, weight=one.weight) for one in self._peers)
        )
        addresses = {one.id: one.address for one in self._peers}
        super().__init__(replace(algorithm, law=""), scenario, addresses, place, clients)

    def load(
        self, servers: Servers, trial: Trial, load: Load, clients: int = CONNECTIONS, think_ms: float = 0.0
    ) -> Measured:
        """Load it by wrk, over so many kept connections. Raises ProgramError.

        think_ms: how long users wait on average between two requests.
        """
        visit = Visit(
            scenario=replace(self._scenario, load=load),
            place=self._place,
            servers=servers,
            balancer=self,
            rates={trial.level: clients},
            load={"think_ms": think_ms},
        )
        entry = measure(visit, trial, first=False)
        if not entry.outcome.quantiles:
            raise ProgramError("wrk got no answer at all")
        return entry

    def warm_up(self, servers: Servers, trial: Trial) -> None:
        """Load it until the connections to all servers are open. Raises ProgramError."""
        left = WARM_CYCLES * sum(self._scenario.weights.values())
        for _ in range(MOST_WARM_UPS):
            load = replace(self._scenario.load, seconds=1)
            left -= self.load(servers, trial, load).outcome.requests
            if left <= 0:
                return

    def reweigh(self) -> None:
        """Publish other weights now; whoever follows no table keeps its own. Raises ProgramError."""
        self._peers = reweighed(self._peers)
        if self._algorithm.ours:
            self._publish()

    def wait_for_table(self) -> None:
        """Wait until our proxy serves a table of now or later. Raises ProgramError."""
        wanted = self._generation

        def older() -> str | None:
            upstream = steelyard_status(self._place.balancer_port)
            if (upstream["generation"] or 0) >= wanted:
                return None
            return f"no weight table ({upstream['last_fetch']})"

        if self._algorithm.ours:
            wait_until(older)

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        if self._algorithm.ours:
            stack.enter_context(contextlib.closing(self._memcached))
            self._publish()
            stack.enter_context(repeating(self._publish, interval_s=TICK_S))
        super()._start(stack, cpus)

    def _publish(self) -> None:
        """Do the controller's part: put the weights as they are now into Memcached, a generation later."""
        with self._lock:
            self._generation += 1
            table = WeightTable(
                upstream=UPSTREAM, term=1, generation=self._generation, issued_at_ms=int(time.time() * 1000),
                law="static", picker=self._algorithm.method, hash_key=self._hash_key, peers=self._peers,
            )  # fmt: skip
            try:
                self._memcached.put(wire.weights_key(UPSTREAM), weight_table.encode(table), ttl_s=TTL_S)
            except Unavailable as error:
                raise ProgramError(f"Memcached does not take the weight table: {error}") from None


def run(scenario: Scenario, reweigh_rounds: int, programs: Programs, folder: Path) -> Results:
    """Measure what a request costs, and then what changes of weights do; Ctrl-C ends it early.

    The scenario's levels are numbers of servers, its servers are others at each. Raises SetupError when it
    cannot begin.
    """
    results = Results(scenarios=(scenario,))
    for one in (BY_NAME[name] for name in scenario.algorithms):
        if why := programs.why_missing(one.program, one.method):
            results.missing.append(Missing(scenario=COST, algorithm=one.title, why=why))
            print(f"not measured: {one.title}: {why}", file=sys.stderr)
    missing = {entry.algorithm for entry in results.missing}
    here = tuple(name for name in scenario.algorithms if BY_NAME[name].title not in missing)
    # Those that take their weights from a table, and what they are held against.
    steered = tuple(name for name in here if BY_NAME[name].ours or name == BASE)
    changing = replace(scenario.load, levels=(MANY,), repeats=reweigh_rounds, seconds=WINDOW_S)
    changed = replace(scenario, name=BEFORE, load=changing)
    steps = [trial for _, trials in visits(scenario, here) for trial in trials]
    guess_s = AROUND_S + (scenario.load.seconds if steps else CHANGES * 2 * WINDOW_S)
    steps += [trial for _, trials in visits(changed, steered) for trial in trials]
    # Tables come from Memcached, where there is one, and from no controller.
    place = replace(place_for(scenario, folder, programs), redis_port=0, api_port=0, follow_port=0)
    place = place if programs.memcached else replace(place, memcached_port=0)
    with Progress(sys.stderr, steps=len(steps), expected_s=len(steps) * guess_s) as progress:
        try:
            with Servers(scenario, place) as servers:
                for step in steps:
                    name = f"{BY_NAME[step.algorithm].title}, {step.level:g} servers"
                    progress.begin(f"round {step.repeat}, {name}")
                    try:
                        before = peers(int(step.level), *place.server_ports)
                        with Contender(BY_NAME[step.algorithm], before, scenario, place) as contender:
                            contender.warm_up(servers, step)
                            entries = _measured(contender, servers, step, scenario.load, changing)
                    except (ProgramError, SetupError) as error:
                        results.missing.append(Missing(scenario=COST, algorithm=name, why=str(error)))
                        progress.end(f"failed: {error}")
                    else:
                        results.measured += entries
                        progress.end(_told(entries))
        except KeyboardInterrupt:
            results.interrupted = True
    return results


def _measured(
    contender: Contender, servers: Servers, step: Trial, cost: Load, changing: Load
) -> list[Measured]:
    """Measure a step: one load; or changes of all weights under load, there and back, with what is around."""
    if step.scenario == COST:
        return [contender.load(servers, step, cost)]
    entries = []
    for repeat in range(CHANGES * (step.repeat - 1) + 1, CHANGES * step.repeat + 1):
        for when in (BEFORE, AFTER):
            if when == AFTER:
                contender.reweigh()
            trial = replace(step, scenario=when, repeat=repeat)
            entries.append(contender.load(servers, trial, changing, THINKERS, THINK_MS))
        contender.wait_for_table()
    return entries


def _told(entries: Sequence[Measured]) -> str:
    """Write what was measured for the progress line."""
    known = [figures(entry, ()).metrics for entry in entries]
    failures = sum(entry.outcome.failures for entry in entries)
    p99_ms = " → ".join(number(one[P99], 2) for one in known)
    said = f"{number(known[0][CPU], 1)} µs CPU, {known[0]['requests_per_s']:,.0f} requests/s, p99 {p99_ms} ms"
    return said + (f", {failures} FAILED" if failures else "")
