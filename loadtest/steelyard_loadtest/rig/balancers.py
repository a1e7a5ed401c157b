"""One algorithm in front of the servers: a program, and our controller if it needs one (I/O)."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from steelyard_loadtest.cluster.parts import HOST
from steelyard_loadtest.machine import http_ask, network
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import STREAM_LUA, Programs
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.control import Control
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import PROXIES
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.proxies.steelyard import steelyard_blocks
from steelyard_loadtest.scenario.algorithms import BY_NAME, Algorithm
from steelyard_loadtest.scenario.definition import Scenario


class Balancer:
    """An algorithm at work, between `with Balancer(...)` and its end. Entering raises ProgramError.

    clients: connections at a time.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        scenario: Scenario,
        addresses: Mapping[str, str],
        place: Place,
        clients: int = render.CLIENTS,
    ) -> None:
        self._algorithm, self._scenario, self._clients = algorithm, scenario, clients
        self._addresses, self._place = addresses, place
        self._stop = contextlib.ExitStack()
        self.fronts: list[Proxy] = []
        """The measured proxies, while they run; none without a balancer."""
        self._control: Control | None = None
        self._ports = (place.balancer_port, *place.more_balancer_ports)[: algorithm.balancers]
        self._beside: Proxy | None = None
        self._beside_port = place.more_balancer_ports[-1] if scenario.beside else 0
        self.urls = [f"http://{HOST}:{port}" for port in (*self._ports, self._beside_port) if port]
        if algorithm.program == "direct":
            self.urls = [f"http://{next(iter(addresses.values()))}"]

    def __enter__(self) -> Self:
        for algorithm in filter(None, (self._algorithm, BY_NAME.get(self._scenario.beside))):
            why = why_missing(algorithm, self._place.programs)
            if why is not None:
                raise ProgramError(why)
        with contextlib.ExitStack() as stack:
            cpus = stack.enter_context(_cpus_aside()) if self._scenario.static else None
            if self._algorithm.program != "direct":
                self._start(stack, cpus)
            self._stop = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.close()
        self.fronts, self._control, self._beside = [], None, None

    def cpu_s(self) -> float | None:
        """Return the CPU time of the processes that serve, so far; None without a balancer."""
        return sum(front.process.cpu_s() for front in self.fronts) if self.fronts else None

    def resident_bytes(self) -> int | None:
        """Return the resident memory of the processes that serve; None without a balancer."""
        return sum(front.process.resident_bytes() for front in self.fronts) if self.fronts else None

    def set_members(self, names: Sequence[str]) -> None:
        """Let these servers take part from now on, by the program's own way.

        nginx: a reload; HAProxy: its command socket; Envoy: the file of its endpoints. With our controller:
        its REST API, which takes a second or two. Raises ProgramError.
        """
        if not names or not set(names) <= set(self._addresses):
            raise ValueError(f"some of {', '.join(self._addresses)} must take part, not {list(names)}")
        for front in self._all():
            front.set_members(names)

    def check(self) -> None:
        """Raise ProgramError, with its last words, when a process has ended by itself."""
        beside = [front.beside for front in self._all()]
        parts = [part.process for part in (*self._all(), self._control) if part]
        for process in filter(None, (*parts, *beside)):
            process.check()

    def _all(self) -> list[Proxy]:
        return [*self.fronts, *filter(None, [self._beside])]

    def _start(self, stack: contextlib.ExitStack, cpus: set[int] | None) -> None:
        confs = [
            self._conf(stack, self._algorithm, number, port) for number, port in enumerate(self._ports, 1)
        ]
        if self._algorithm.law:
            self._control = Control(confs[0])
            stack.callback(self._control.process.stop)
        for conf in confs:
            front = PROXIES[self._algorithm.program](conf, self._control, cpus)
            stack.callback(front.stop)
            self.fronts.append(front)
        ports = [*self._ports]
        if self._beside_port:
            beside, number = BY_NAME[self._scenario.beside], len(ports) + 1
            conf = self._conf(stack, beside, number, self._beside_port)
            self._beside = PROXIES[beside.program](conf, None, cpus)
            stack.callback(self._beside.stop)
            ports.append(self._beside_port)
        for front, port in zip(self._all(), ports, strict=True):
            front.wait()
            why = partial(http_ask.why_not_ok, HOST, port, self._scenario.path)
            wait_until(why, [front.process])
        if self._control:
            self._control.wait()  # otherwise nginx's own methods are measured while it starts beside them

    def _conf(
        self, stack: contextlib.ExitStack, algorithm: Algorithm, number: int, port: int
    ) -> render.BalancerConfig:
        socket = None
        if PROXIES[algorithm.program].has_socket:
            # A folder of its own, because a socket's path may have about 100 characters at most.
            short = tempfile.TemporaryDirectory(prefix="steelyard-lab-")
            socket = Path(stack.enter_context(short)) / "admin.sock"
        conf = render.BalancerConfig(
            algorithm=algorithm,
            place=replace(self._place, balancer_port=port),
            number=number,
            addresses=self._addresses,
            weights=render.weights(algorithm, self._scenario),
            zones={server.name: server.zone for server in self._scenario.servers if server.zone},
            files=network.raise_files(),
            root=os.geteuid() == 0,
            socket=socket,
            clients=self._clients,
        )
        conf.folder.mkdir(exist_ok=True)
        if not algorithm.ours:
            return conf
        checkout, nginx = self._place.checkout, self._place.programs.nginx
        servers = len(self._addresses)
        blocks = steelyard_blocks(checkout, nginx, servers=servers, clients=self._clients)
        return replace(conf, upstream=blocks)


def why_missing(algorithm: Algorithm, programs: Programs) -> str | None:
    """Return why an algorithm cannot be measured here, with the package that helps; None if it can.

    A picker whose library is missing reports it only once nginx runs.
    """
    why = programs.why_missing(algorithm.program, algorithm.method)
    is_tcp = algorithm.ours and algorithm.mode == "tcp"
    if why is None and is_tcp and programs.modules.get(STREAM_LUA) is None:
        return f"{programs.nginx} has no ngx_stream_lua, which OpenResty has (--nginx PATH)"
    return why


@contextlib.contextmanager
def _cpus_aside() -> Iterator[set[int]]:
    """Give the proxy a CPU of its own, and the others to this process and its later children."""
    before = os.sched_getaffinity(0)
    proxy, others = network.divide_cpus()
    os.sched_setaffinity(0, others)
    try:
        yield proxy
    finally:
        os.sched_setaffinity(0, before)
