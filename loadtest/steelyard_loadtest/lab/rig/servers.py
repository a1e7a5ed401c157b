"""The servers of a scenario while it is measured: demo servers with an agent each, or one nginx for all."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from steelyard_loadtest.lab.records import Reading
from steelyard_loadtest.lab.rig import commands, direct, limits_said, stores
from steelyard_loadtest.lab.rig.capacity import capacity_per_s
from steelyard_loadtest.lab.rig.commands import HOST, Files
from steelyard_loadtest.lab.rig.counters import Counters
from steelyard_loadtest.lab.rig.place import Place
from steelyard_loadtest.lab.scenario.model import Scenario
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.network import divide_cpus, raise_files
from steelyard_loadtest.machine.process import Process

TEMPLATES = Path(__file__).with_name("templates")

START_S = 90.0
"""Ten servers and their agents are twenty Pythons; two cores start them in about ten seconds."""

REST_S = 30.0
"""A queue of 500 requests before a tenth of a core is worked off in 10 s."""

IDLE_UTILIZATION = 0.1
"""Of the limit (or of a core). A server at rest takes some hundredths, for health checks and its clock."""

IDLE_OVER_S = 0.5
CALIBRATION_REQUESTS = 100
"""0.1 s of CPU: enough for 5 %. A third more are sent before, because the first cost more."""

CONNECTIONS = 4
"""To each server while the cost is measured: some requests wait then, as they do under load, and waking up
for a single one costs more."""

CALIBRATION_S = 4.0
"""Where requests are slow without being busy, fewer have to do."""


class Servers:
    """Memcached, Redis, the servers and their agents; a context manager.

    means: how the servers' limits are held. addresses: `127.0.0.1:port` by name, in
    the scenario's order.
    """

    def __init__(self, scenario: Scenario, place: Place) -> None:
        self._scenario, self._place = scenario, place
        self._names = [server.name for server in scenario.servers]
        self._files = {name: Files(folder=place.folder, name=name) for name in self._names}
        ports = zip(self._names, place.server_ports, strict=True)
        self.addresses: Mapping[str, str] = {name: f"{HOST}:{port}" for name, port in ports}
        self.means = limits_said.UNLIMITED
        self._running: dict[str, Process] = {}
        self._counters: list[Counters] = []
        self._burning: list[tuple[str, Future[int]]] = []
        self._pool = ThreadPoolExecutor(max(len(self._names), 1) * CONNECTIONS, "ask")

    def __enter__(self) -> Self:
        """Start everything, and wait until each server answers and has a sample. Raises SetupError."""
        try:
            self._running["memcached"] = stores.start_memcached(self._place)
            self._running["redis"] = stores.start_redis(self._place)
            if self._scenario.static:
                self._start_static_servers()
            else:
                self._start_servers()
            self._running["memcached"].wait_listening(self._place.memcached_port)
            self._running["redis"].wait_listening(self._place.redis_port)
            self._wait(self._without_answer, "answers")
            if not self._scenario.static:
                self._wait(self._without_sample, "has a sample of its agent in Memcached")
                logs = [files.server_log.read_text() for files in self._files.values()]
                self.means = limits_said.means(logs)
                self._counters = [Counters(files) for files in self._files.values()]
        except (ProgramError, OSError) as error:
            self._stop()
            raise SetupError(str(error)) from error
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self._stop()

    def read(self) -> tuple[Reading, ...]:
        """Return each server's counters, in the scenario's order; () where the servers are static."""
        return tuple(counters.read() for counters in self._counters)

    def burn(self, server: str, seconds: float, workers: int) -> None:
        """Let a neighbour take the CPU of a server's limit; does not wait. A failure is `check`'s to tell."""
        # A server under load is slow to answer this too.
        path = f"/burn?seconds={math.ceil(seconds)}&workers={workers}"
        self._burning.append(
            (server, self._pool.submit(direct.request, self.addresses[server], "POST", path))
        )

    def rest(self) -> None:
        """End all burning, and wait until the servers are idle, REST_S at the most. Raises SetupError."""
        self.check()
        if self._scenario.static:
            return
        stopping = [
            (name, self._pool.submit(direct.request, address, "DELETE", "/burn"))
            for name, address in self.addresses.items()
        ]
        for name, stopped in stopping:
            _expect(name, stopped, 200)
        deadline_s = time.monotonic() + REST_S
        before = self.read()
        while time.monotonic() < deadline_s:
            time.sleep(IDLE_OVER_S)
            now = self.read()
            if all(map(self._is_idle, before, now)):
                return
            before = now

    def capacity_per_s(self, path: str) -> float:
        """Return how many requests for `path` all can do in a second, measured now. Raises SetupError."""
        if self._scenario.static:
            raise SetupError(
                f"{self._scenario.name}: static servers have no capacity: give levels, not parts"
            )
        self._load_each(path, CALIBRATION_REQUESTS // 3)
        before = self.read()
        self._load_each(path, CALIBRATION_REQUESTS)
        costs_s = {}
        for was, now in zip(before, self.read(), strict=True):
            if now.served <= was.served or now.cpu_s <= was.cpu_s:
                raise SetupError(
                    f"{now.server} counts no request for {path}: is that one of the demo server's?"
                )
            costs_s[now.server] = (now.cpu_s - was.cpu_s) / (now.served - was.served)
        cores = len(os.sched_getaffinity(0))
        return capacity_per_s(self._scenario.servers, costs_s, path, cores)

    def check(self) -> None:
        """Raise SetupError when something has ended by itself, or did not burn."""
        for name, process in self._running.items():
            try:
                process.check()
            except ProgramError as error:
                raise SetupError(f"{name}: {error}") from None
        over = [item for item in self._burning if item[1].done()]
        self._burning = [item for item in self._burning if not item[1].done()]
        for name, burning in over:
            _expect(name, burning, 202)

    def _start_servers(self) -> None:
        # All at once: most of a start is Python's own, and a server waits for nobody.
        for server, port in zip(self._scenario.servers, self._place.server_ports, strict=True):
            files = self._files[server.name]
            self._running[server.name] = Process(commands.server(server, port, files), files.server_log)
        for server in self._scenario.servers:
            files = self._files[server.name]
            command = commands.agent(server, self._place.memcached_port, files)
            self._running[f"{server.name}'s agent"] = Process(command, files.agent_log)

    def _start_static_servers(self) -> None:
        folder = self._place.folder
        template = (TEMPLATES / "static-servers.conf").read_text(encoding="utf-8")
        root = os.geteuid() == 0
        ports = self._place.server_ports
        text = commands.static_servers(template, ports, folder, files=raise_files(), root=root)
        config, log = folder / "static-servers.conf", folder / "static-servers.log"
        config.write_text(text, encoding="utf-8")
        command = [self._place.found.backend_nginx, "-p", str(folder), "-c", str(config), "-e", str(log)]
        _, cpus = divide_cpus()  # the proxy has the other one
        self._running["static servers"] = Process(command, log, cpus)

    def _wait(self, missing: Callable[[], list[str]], what: str) -> None:
        deadline_s = time.monotonic() + START_S
        while names := missing():
            self.check()
            if time.monotonic() > deadline_s:
                raise SetupError(f"after {START_S:.0f} s none of these {what}: {', '.join(names)}")
            time.sleep(0.1)

    def _without_answer(self) -> list[str]:
        path = "/" if self._scenario.static else "/healthz"
        return [name for name, address in self.addresses.items() if not direct.answers(address, path)]

    def _without_sample(self) -> list[str]:
        return stores.without_sample(self._names, self._place.memcached_port)

    def _is_idle(self, was: Reading, now: Reading) -> bool:
        limit = {server.name: server.cpu_cores for server in self._scenario.servers}[now.server] or 1.0
        busy = (now.cpu_s - was.cpu_s) / ((now.at_s - was.at_s) * limit)
        return busy < IDLE_UTILIZATION and now.served == was.served

    def _load_each(self, path: str, requests: int) -> None:
        loading = [
            (name, self._pool.submit(direct.load, address, path, requests // CONNECTIONS, CALIBRATION_S))
            for name, address in self.addresses.items()
            for _ in range(CONNECTIONS)
        ]
        for name, loaded in loading:
            _expect(name, loaded, 200)

    def _stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        processes = list(self._running.values())
        with ThreadPoolExecutor(max(len(processes), 1), "stop") as pool:
            list(pool.map(Process.stop, processes))
        self._running, self._counters = {}, []
        for files in self._files.values():
            # A server that had to be killed left its group behind.
            with contextlib.suppress(OSError):
                if group := limits_said.group(files.server_log.read_text()):
                    group.rmdir()
                    group.parent.rmdir()


def _expect(server: str, answer: Future[int], status: int) -> None:
    try:
        got = answer.result()
    except OSError as error:
        raise SetupError(f"{server} does not answer: {error}") from None
    if got != status:
        raise SetupError(f"{server} answers {got}, not {status}")
