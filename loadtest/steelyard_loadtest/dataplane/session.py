"""A run: contenders are compare's balancers, and ours follow tables; also when it was interrupted (I/O)."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from steelyard_protocol import weight_table, wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable
from steelyard_protocol.weight_table import TablePeer

from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.dataplane.contenders import (
    AFTER,
    BASE,
    BEFORE,
    BY_NAME,
    COST,
    peers,
    reweighed,
    steps,
    table,
)  # fmt: skip
from steelyard_loadtest.dataplane.medians import CPU, MANY, P99, answered, metrics
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError, SetupError, UnreadableError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.machine.repeating import repeating
from steelyard_loadtest.measurements.trials import Measured, Missing, Results, Trial
from steelyard_loadtest.reporting.progress import Progress
from steelyard_loadtest.reporting.wording import number
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import steelyard_status
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.definition import Load, Scenario, Server
from steelyard_loadtest.trial import Visit, measure, place_for

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

REQUEST_TIMEOUT_S = 5

TICK_S = 1.0

ANSWER_S = 5.0
"""Long enough for a machine that is measured at its limit."""

TTL_S = 86_400
"""The measurement goes on for minutes where the last table was put."""


class Publisher:
    """The controller's part: a weight table in Memcached, its generation rising every second."""

    def __init__(self, port: int, servers: tuple[TablePeer, ...], picker: str) -> None:
        self._client = MemcachedClient((HOST, port), timeout_s=ANSWER_S)
        self.servers, self._picker = servers, picker
        self._lock = threading.Lock()
        self.generation = 0

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        """Publish now and every second. Raises ProgramError."""
        self.publish()
        with contextlib.closing(self._client), repeating(self.publish, interval_s=TICK_S):
            yield

    def publish(self) -> None:
        """Publish the servers as they are now. Raises ProgramError."""
        with self._lock:
            self.generation += 1
            now_ms = int(time.time() * 1000)
            document = table(
                self.servers, picker=self._picker, generation=self.generation, issued_at_ms=now_ms
            )
            try:
                self._client.put(wire.weights_key(UPSTREAM), weight_table.encode(document), ttl_s=TTL_S)
            except Unavailable as error:
                raise ProgramError(f"Memcached does not take the weight table: {error}") from None


class Contender(Balancer):
    """A contender before so many servers; ours follows a table that is published anew every second."""

    def __init__(self, step: Trial, scenario: Scenario, servers: Servers, place: Place) -> None:
        algorithm, rows = BY_NAME[step.algorithm], peers(int(step.level), *place.server_ports)
        self._servers, self._cycle = servers, sum(peer.weight for peer in rows)
        self._publisher: Publisher | None = None
        if algorithm.ours:
            self._publisher = Publisher(place.memcached_port, rows, algorithm.method)
        scenario = replace(scenario, servers=tuple(Server(name=one.id, weight=one.weight) for one in rows))
        addresses = {peer.id: peer.address for peer in rows}
        clients = round(scenario.load.levels[0])
        super().__init__(algorithm, scenario, addresses, place, clients)

    def load(self, trial: Trial, load: Load, think_ms: float = 0.0) -> Measured:
        """Load it by wrk, over kept connections from one thread. Raises ProgramError.

        think_ms: how long users wait on average between two requests.
        """
        visit = Visit(
            scenario=replace(self._scenario, load=load),
            place=self._place,
            servers=self._servers,
            balancer=self,
            rates={trial.level: load.levels[0]},
            load={"timeout_s": REQUEST_TIMEOUT_S, "think_ms": think_ms},
        )
        entry = measure(visit, trial, first=False)
        try:
            return replace(entry, outcome=answered(entry.outcome))
        except UnreadableError as error:
            raise ProgramError(f"wrk: {error}") from None

    def warm_up(self, trial: Trial) -> None:
        """Load it until the connections to all servers are open. Raises ProgramError."""
        left = WARM_CYCLES * self._cycle
        for _ in range(MOST_WARM_UPS):
            left -= self.load(trial, replace(self._scenario.load, seconds=1)).outcome.requests
            if left <= 0:
                return

    def reweigh(self) -> None:
        """Publish other weights now; whoever follows no table keeps its own. Raises ProgramError."""
        if self._publisher:
            self._publisher.servers = reweighed(self._publisher.servers)
            self._publisher.publish()

    def wait_for_table(self) -> None:
        """Wait until our proxy serves a table of now or later. Raises ProgramError."""
        if self._publisher is None:
            return
        wanted = self._publisher.generation

        def older() -> str | None:
            upstream = steelyard_status(self._place.balancer_port)
            if (upstream["generation"] or 0) >= wanted:
                return None
            return f"no weight table ({upstream['last_fetch']})"

        wait_until(older)

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        if self._publisher:
            stack.enter_context(self._publisher.publishing())
        super()._start(stack, cpus)


def run(
    scenario: Scenario, peer_counts: Sequence[int], reweigh_rounds: int, programs: Programs, folder: Path
) -> Results:
    """Measure what a request costs, and then what changes of weights do; Ctrl-C ends it early.

    The scenario's servers are others at each number of servers. Raises SetupError when it cannot begin.
    """
    results = Results(scenarios=(scenario,))
    here = []
    for one in (BY_NAME[name] for name in scenario.algorithms):
        why = programs.why_missing(one.program, one.method)
        if why is None:
            here.append(one)
        else:
            results.missing.append(Missing(scenario=COST, algorithm=one.title, why=why))
            print(f"not measured: {one.title}: {why}", file=sys.stderr)
    costs = list(steps(here, peer_counts, scenario.load.repeats))
    # Those that take their weights from a table, and what they are held against.
    steered = [one for one in here if one.ours or one.name == BASE]
    changes = list(steps(steered, [MANY], reweigh_rounds, BEFORE))
    total = len(costs) + len(changes)
    guess_s = AROUND_S + (scenario.load.seconds if costs else CHANGES * 2 * WINDOW_S)
    # Tables come from Memcached, where there is one, and from no controller.
    place = replace(place_for(scenario, folder, programs), redis_port=0, api_port=0, follow_port=0)
    place = place if programs.memcached else replace(place, memcached_port=0)
    with Progress(sys.stderr, steps=total, expected_s=total * guess_s) as progress:
        try:
            with Servers(scenario, place) as servers:
                for step in costs + changes:
                    title, before = BY_NAME[step.algorithm].title, f"{step.level:g} servers"
                    progress.begin(f"round {step.repeat}, {before}, {title}")
                    try:
                        entries = _measure(step, scenario, servers, place)
                    except (ProgramError, SetupError) as error:
                        name = f"{title}, {before}"
                        results.missing.append(Missing(scenario=COST, algorithm=name, why=str(error)))
                        progress.end(f"failed: {error}")
                    else:
                        results.measured += entries
                        progress.end(_told(entries))
        except KeyboardInterrupt:
            results.interrupted = True
    return results


def _measure(step: Trial, scenario: Scenario, servers: Servers, place: Place) -> list[Measured]:
    load = scenario.load
    with Contender(step, scenario, servers, place) as contender:
        contender.warm_up(step)
        if step.scenario != COST:
            return _changes(contender, step, replace(load, levels=(THINKERS,), seconds=WINDOW_S))
        entry = contender.load(step, load)
        resident = [front.process.resident_bytes() for front in contender.fronts]
        return [replace(entry, balancer_resident_bytes=sum(resident) if resident else None)]


def _changes(contender: Contender, step: Trial, load: Load) -> list[Measured]:
    """Change all weights under load, there and back; nginx's own are left alone."""
    entries = []
    for repeat in range(CHANGES * (step.repeat - 1) + 1, CHANGES * step.repeat + 1):
        for when in (BEFORE, AFTER):
            if when == AFTER:
                contender.reweigh()
            entries.append(contender.load(replace(step, scenario=when, repeat=repeat), load, THINK_MS))
        contender.wait_for_table()
    return entries


def _told(entries: Sequence[Measured]) -> str:
    """Write what was measured for the progress line."""
    known = [metrics(entry) for entry in entries]
    if entries[0].trial.scenario == COST:
        failures = entries[0].outcome.failures
        said = f"{number(known[0].get(CPU), 1)} µs CPU, {known[0]['requests_per_s']:,.0f} requests/s"
        return said + (f", {failures} FAILED" if failures else "")
    p99_ms = [number(one.get(P99), 2) for one in known]
    return "p99 " + ", ".join(f"{old} → {new} ms" for old, new in zip(p99_ms[::2], p99_ms[1::2], strict=True))
