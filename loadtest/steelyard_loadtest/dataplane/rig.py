"""A contender at work: one of compare's balancers, and the weight tables that ours follows (I/O)."""

import contextlib
import threading
import time
from dataclasses import replace
from typing import Self

from steelyard_protocol import weight_table, wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable
from steelyard_protocol.weight_table import TablePeer

from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.dataplane.contenders import BY_NAME, cycle, peers, reweighed, table
from steelyard_loadtest.dataplane.medians import answered
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError, UnreadableError
from steelyard_loadtest.measurements.trials import Measured, Trial
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import steelyard_status
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.definition import Load, Scenario, Server
from steelyard_loadtest.trial import Visit, measure

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
    """The controller's part: a weight table in Memcached, its generation rising every second.

    Entering and publishing raise ProgramError.
    """

    def __init__(self, port: int, servers: tuple[TablePeer, ...], picker: str) -> None:
        self._client = MemcachedClient((HOST, port), timeout_s=ANSWER_S)
        self.servers, self._picker = servers, picker
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self.generation = 0

    def __enter__(self) -> Self:
        self.publish()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def publish(self) -> None:
        """Publish the servers as they are now."""
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

    def _tick(self) -> None:
        while not self._stopped.wait(TICK_S):
            self.publish()


class Contender(Balancer):
    """A contender before so many servers; ours follows a table that is published anew every second."""

    def __init__(self, step: Trial, scenario: Scenario, servers: Servers, place: Place) -> None:
        algorithm, rows = BY_NAME[step.algorithm], peers(int(step.level), *place.server_ports)
        self._servers, self._cycle = servers, cycle(rows)
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
            stack.enter_context(self._publisher)
        super()._start(stack, cpus)
