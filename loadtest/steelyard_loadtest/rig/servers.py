"""The servers of a scenario while it is measured: demo servers with an agent each, or one nginx for all."""

import contextlib
import http.client
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Self

from steelyard_protocol import wire
from steelyard_protocol.memcached_client import MemcachedClient, Unavailable

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM, Part
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process, wait_until
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.network import divide_cpus
from steelyard_loadtest.measurements.capacity import Capacity
from steelyard_loadtest.measurements.trials import Reading
from steelyard_loadtest.rig import cpu_limits
from steelyard_loadtest.rig.answering_servers import start_answering
from steelyard_loadtest.rig.counters import Counters
from steelyard_loadtest.rig.place import Files, Place, agent_config, agent_part, server_part
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.server.cpu_limit import write_quota

ANSWER_S = 2.0
"""Memcached answers within a millisecond, and within several on a busy machine."""

TIMEOUT_S = 30.0
"""A server with a small quota and a queue answers late, and is not dead."""

START_S = 90.0
"""Ten servers and their agents are twenty Pythons, which two cores start in about ten seconds."""

REST_S = 30.0
"""A tenth of a core works off a queue of 500 requests in 10 s."""

IDLE_UTILIZATION = 0.1
"""Part of the limit (or of a core). An idle server takes some hundredths, for health checks and its clock."""

IDLE_OVER_S = 0.5
CALIBRATIONS = 5
"""Short measurements of the capacity. A disturbance of a second spoils one or two, and not their median."""

CALIBRATION_REQUESTS = 60
"""To each server in each of them: 0.05 to 0.1 s of CPU."""

FIRST_REQUESTS = 32
"""They are sent before, because the first ones cost more."""

CONNECTIONS = 4
"""Connections to each server while the cost is measured. Some requests then wait, as under load; waking up
for a single one costs more."""

CALIBRATION_S = 4.0
"""If requests are slow without being busy, fewer have to do."""


class Servers:
    """Memcached, Redis, the servers and their agents; a context manager.

    A store without a port in the place is not started. means: how the servers' limits are held. addresses:
    address and port by name, in the scenario's order.
    """

    at_one_address = False
    """All listen at 127.0.0.1. Otherwise each has an address of its own, as on a network."""

    def __init__(self, scenario: Scenario, place: Place) -> None:
        self._scenario, self._place = scenario, place
        self._names = [server.name for server in scenario.servers]
        self._files = {name: Files(name, place.folder) for name in self._names}
        ports = enumerate(zip(self._names, place.server_ports, strict=True), 1)
        self.addresses: Mapping[str, str] = {
            name: f"{HOST if self.at_one_address else f'127.0.0.{number}'}:{port}"
            for number, (name, port) in ports
        }
        # With static servers the proxy is measured, and has the other CPU.
        self._cpus = divide_cpus()[1] if scenario.static else None
        self.means = cpu_limits.UNLIMITED
        self._running: dict[str, Process] = {}
        self._counters: list[Counters] = []
        self._under_way: list[tuple[str, Future[int], int]] = []  # an event's request, and its status if good
        holding = sum(event.workers for event in scenario.events if event.do == "hold")
        self._pool = ThreadPoolExecutor(max(len(self._names), 1) * CONNECTIONS + holding, "ask")

    def __enter__(self) -> Self:
        """Start everything, and wait until each server answers and has a sample. Raises SetupError."""
        try:
            self._start_stores()
            if self._cpus:
                self._running["static servers"] = start_answering(self._place, self._cpus)
            else:
                self._start_servers()
            for name, port in (("memcached", self._place.memcached_port), ("redis", self._place.redis_port)):
                if port:
                    self._running[name].wait_listening(port)
            self._wait(self._without_answer, "answers")
            if not self._scenario.static:
                self._begin_reading()
        except BaseException as error:
            self._stop()
            if isinstance(error, ProgramError | OSError):
                raise SetupError(str(error)) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End everything."""
        self._stop()

    def read(self) -> tuple[Reading, ...]:
        """Return each server's counters, in the scenario's order; () for static servers."""
        return tuple(counters.read() for counters in self._counters)

    def burn(self, server: str, seconds: float, workers: int, part: float | None = None) -> None:
        """Let a neighbour take the CPU of a server's limit, or this part of it; does not wait.

        `check` reports a failure.
        """
        percent = "" if part is None else f"&percent={round(part * 100)}"
        # A server under load is slow to answer this too.
        path = f"/burn?seconds={math.ceil(seconds)}&workers={workers}{percent}"
        self._under_way.append(
            (server, self._pool.submit(_status, self.addresses[server], path, "POST"), 202)
        )

    def spin(self, server: str, seconds: float) -> None:
        """Let a server wait busily; does not wait for its answer."""
        path = f"/spin?seconds={math.ceil(seconds)}"
        self._under_way.append(
            (server, self._pool.submit(_status, self.addresses[server], path, "POST"), 202)
        )

    def hold(self, server: str, seconds: float, workers: int) -> None:
        """Let other requests hold workers of a server's pool; does not wait."""
        path = f"/sleep?ms={round(seconds * 1000)}"
        for _ in range(workers):
            asked = self._pool.submit(_status, self.addresses[server], path, "GET", seconds + TIMEOUT_S)
            self._under_way.append((server, asked, 200))

    def fail(self, server: str, seconds: float) -> None:
        """Let a server answer the load with errors at once; does not wait."""
        path = f"/fail?seconds={math.ceil(seconds)}"
        self._under_way.append(
            (server, self._pool.submit(_status, self.addresses[server], path, "POST"), 202)
        )

    def slow(self, server: str, seconds: float, late_ms: int) -> None:
        """Let a server answer later, without being busy; does not wait."""
        path = f"/slow?seconds={math.ceil(seconds)}&ms={late_ms}"
        self._under_way.append(
            (server, self._pool.submit(_status, self.addresses[server], path, "POST"), 202)
        )

    def cold(self, server: str, entries: int, times: int) -> None:
        """Empty a server's cache of this size, whose misses are this much more work; does not wait."""
        path = f"/cold?entries={entries}&times={times}"
        self._under_way.append(
            (server, self._pool.submit(_status, self.addresses[server], path, "POST"), 202)
        )

    def drift(self, t_s: float) -> None:
        """Set the limits that change to their values t_s seconds after the counted part began.

        Raises SetupError if no control group holds them, because nothing else can be changed.
        """
        for server in self._scenario.servers:
            cores = server.cores_at(t_s)
            if not server.moves or cores is None:
                continue
            group = cpu_limits.group(self._files[server.name].server_log.read_text())
            if group is None:
                raise SetupError(
                    f"{server.name}'s CPU limit changes, and only a control group's quota can: run it as root"
                    f" (limits are held by {self.means})"
                )
            write_quota(group, 2 if (group / "cpu.max").exists() else 1, cores)

    def rest(self) -> None:
        """End all trouble, and wait at most REST_S until the servers are idle and nothing is held.

        Raises SetupError.
        """
        self.check()
        if self._scenario.static:
            return
        self.drift(0.0)
        for path in ("/burn", "/fail"):
            self._ask_each(_status, path, "DELETE")
        deadline_s = time.monotonic() + REST_S
        before = self.read()
        while time.monotonic() < deadline_s:
            time.sleep(IDLE_OVER_S)
            now = self.read()
            if all(map(self._is_idle, before, now)) and all(asked.done() for _, asked, _ in self._under_way):
                return
            before = now

    def capacity(self, path: str, times: int = CALIBRATIONS) -> Capacity:
        """Measure the servers' capacity for `path`, this number of times. Raises SetupError."""
        if self._scenario.static:
            raise SetupError(
                f"{self._scenario.name}: static servers have no capacity: give levels, not parts"
            )
        self._ask_each(_load, path, FIRST_REQUESTS // CONNECTIONS, times=CONNECTIONS)
        return Capacity(measured_per_s=tuple(self._capacity_per_s(path) for _ in range(times)))

    def _capacity_per_s(self, path: str) -> float:
        before = self.read()
        self._ask_each(_load, path, CALIBRATION_REQUESTS // CONNECTIONS, times=CONNECTIONS)
        costs_s = {}
        for earlier, now in zip(before, self.read(), strict=True):
            if now.served <= earlier.served or now.cpu_s <= earlier.cpu_s:
                raise SetupError(
                    f"{now.server} counts no request for {path}: is that one of the demo server's paths?"
                )
            costs_s[now.server] = (now.cpu_s - earlier.cpu_s) / (now.served - earlier.served)
        cores = len(os.sched_getaffinity(0))
        return cpu_limits.capacity_per_s(self._scenario.servers, costs_s, path, cores)

    def check(self) -> None:
        """Raise SetupError if something has ended by itself, or an event did not happen."""
        for name, process in self._running.items():
            try:
                process.check()
            except ProgramError as error:
                raise SetupError(f"{name}: {error}") from None
        over = [item for item in self._under_way if item[1].done()]
        self._under_way = [item for item in self._under_way if item not in over]
        for name, asked, status in over:
            _expect(name, asked, status)

    def _begin_reading(self) -> None:
        self._wait(self._without_sample, "has a sample of its agent in Memcached")
        logs = [files.server_log.read_text() for files in self._files.values()]
        self.means = cpu_limits.means(logs)
        self._counters = [Counters(files) for files in self._files.values()]
        self.drift(0.0)

    def _start(self, part: Part, log: Path) -> None:
        self._running[part.name] = Process(part.command, log, self._cpus)

    def _start_stores(self) -> None:
        place, redis = self._place, shutil.which("redis-server")
        if place.memcached_port:
            if place.programs.memcached is None:
                raise SetupError("memcached is not installed (apt-get install memcached)")
            user = "nobody" if os.geteuid() == 0 else None
            memcached = parts.memcached(place.memcached_port, program=place.programs.memcached, user=user)
            self._start(memcached, place.folder / "memcached.log")
        if place.redis_port:
            if redis is None:
                raise SetupError("redis-server is not installed (apt-get install redis-server)")
            self._start(
                parts.redis(place.redis_port, place.folder, program=redis), place.folder / "redis.log"
            )

    def _start_servers(self) -> None:
        # All at once: most of a start is Python's own, and servers do not depend on each other.
        for server in self._scenario.servers:
            files, here = self._files[server.name], self.addresses[server.name]
            self._start(server_part(server, here, files), files.server_log)
            memcached, orca = self._place.memcached_port, self._place.orca_port
            files.agent_config.write_text(agent_config(server, here, streams=bool(orca)))
            part = agent_part(server, here, files, memcached_port=memcached, orca_port=orca)
            self._start(replace(part, name=f"{server.name}'s agent"), files.agent_log)

    def _wait(self, missing: Callable[[], list[str]], what: str) -> None:
        wait_until(
            lambda: f"none of these {what}: {', '.join(names)}" if (names := missing()) else None,
            self._running.values(), within_s=START_S,
        )  # fmt: skip

    def _without_answer(self) -> list[str]:
        path = "/" if self._scenario.static else "/healthz"
        return [
            name
            for name, address in self.addresses.items()
            if http_ask.why_not_ok(*_split(address), path, timeout_s=TIMEOUT_S)
        ]

    def _without_sample(self) -> list[str]:
        keys = {wire.sample_key(UPSTREAM, name): name for name in self._names}
        client = MemcachedClient((HOST, self._place.memcached_port), timeout_s=ANSWER_S)
        try:
            there = client.get_many(list(keys))
        except Unavailable:
            return self._names
        finally:
            client.close()
        return [name for key, name in keys.items() if key not in there]

    def _is_idle(self, earlier: Reading, now: Reading) -> bool:
        limit = {server.name: server.cpu_cores for server in self._scenario.servers}[now.server] or 1.0
        busy = (now.cpu_s - earlier.cpu_s) / ((now.at_s - earlier.at_s) * limit)
        return busy < IDLE_UTILIZATION and now.served == earlier.served

    def _ask_each(self, ask: Callable[..., int], *what: object, times: int = 1) -> None:
        asked = [
            (name, self._pool.submit(ask, address, *what))
            for name, address in self.addresses.items()
            for _ in range(times)
        ]
        for name, answer in asked:
            _expect(name, answer, 200)

    def _stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        processes = list(self._running.values())
        with ThreadPoolExecutor(max(len(processes), 1), "stop") as pool:
            list(pool.map(Process.stop, processes))
        self._running, self._counters = {}, []
        for files in self._files.values():
            # A server that had to be killed left its group behind.
            with contextlib.suppress(OSError):
                if group := cpu_limits.group(files.server_log.read_text()):
                    group.rmdir()
                    group.parent.rmdir()


def _expect(server: str, answer: Future[int], status: int) -> None:
    try:
        got = answer.result()
    except (OSError, http.client.HTTPException, ProgramError) as error:
        raise SetupError(f"{server} does not answer: {error}") from None
    if got != status:
        raise SetupError(f"{server} answers {got}, not {status}")


def _status(address: str, path: str, method: str, timeout_s: float = TIMEOUT_S) -> int:
    status, _ = http_ask.ask(*_split(address), path, method=method, timeout_s=timeout_s)
    return status


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


def _load(address: str, path: str, requests: int) -> int:
    """Send requests one after the other; return the first status that is not 200, or 200."""
    deadline_s = time.monotonic() + CALIBRATION_S
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)  # kept alive, as a balancer's are
    with contextlib.closing(connection):
        for _ in range(requests):
            connection.request("GET", path)
            with connection.getresponse() as response:
                response.read()
            if response.status != 200 or time.monotonic() > deadline_s:
                return response.status
    return 200
