"""The daemons under attack, on free ports of loopback: memcached, controllers, an agent, nginx (I/O)."""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM, Flag, Part
from steelyard_loadtest.machine import http_ask
from steelyard_loadtest.machine.child_process import Process, inherited_environment, wait_until
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.machine.programs import LUA, Programs

from steelyard_resilience import CHECKOUT

DIRECTIVES = (
    "proxy_connect_timeout 1s", "proxy_read_timeout 2s",
    "proxy_next_upstream error timeout invalid_header http_502 http_503",
    "client_header_timeout 2s", "client_body_timeout 2s", "keepalive_timeout 2s",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running program: its process, its log, and its ports by purpose."""

    process: Process
    log: Path
    ports: dict[str, int]

    def pids(self) -> list[int]:
        """Return its serving processes."""
        self.process.check()
        return self.process.workers()

    def wait_for(self, path: str, otherwise: str) -> None:
        """Wait until its first port answers GET `path` with 200. Raises ProgramError with `otherwise`."""
        port = next(iter(self.ports.values()))
        wait_until(lambda: http_ask.why_not_ok(HOST, port, path, timeout_s=2) and otherwise, [self.process])


class Rig:
    """Starts daemons in a folder, and stops them; raises ProgramError if one does not start."""

    def __init__(self, folder: Path, programs: Programs) -> None:
        if programs.memcached is None or programs.modules[LUA] is None:
            raise SetupError("needs memcached and an nginx with Lua: run `make setup`")
        self.folder, self._programs, self._stop = folder, programs, ExitStack()
        # A single call returns distinct ports for all listeners.
        self._ports = iter(free_ports(16))
        self._backend = next(self._ports)  # nginx's own server, behind it
        memcached = next(self._ports)
        self._memcached = f"{HOST}:{memcached}"
        user = "nobody" if os.geteuid() == 0 else None
        part = parts.memcached(memcached, program=programs.memcached, user=user)
        self._start(part, {"memcached": memcached})

    def close(self) -> None:
        """Stop everything, the last started first."""
        self._stop.close()

    def controller(self, **more: Flag) -> Daemon:
        """Start a controller with an upstream `web`; more: its flags."""
        api, check = next(self._ports), next(self._ports)
        config = self.folder / f"controller-{api}.yaml"
        server = {"id": "server-1", "address": f"{HOST}:{self._backend}", "baseline": 1}
        config.write_text(nginx.controller([server]))
        flags: dict[str, Any] = {"memcached": self._memcached, "state_url": "memory://", "tick_s": 0.1}
        part = parts.controller(api, config, agent_check_port=check, **(flags | more))
        return self._start(part, {"api": api, "agent-check": check})

    def agent(self) -> Daemon:
        """Start an agent with its endpoint."""
        port = next(self._ports)
        part = parts.agent("server-1", memcached=self._memcached, orca=f":{port}")
        daemon = self._start(part, {"orca": port})
        daemon.wait_for("/orca", "the agent has no sample")
        return daemon

    def nginx(self, *, hostile: int | None = None) -> Daemon:
        """Start an nginx; with `hostile` that port is its Memcached, its controller and one server."""
        port = next(self._ports)
        folder = self.folder / f"nginx-{port}"
        log = folder / "error.log"
        general = nginx.Nginx(
            folder=folder, log=log, listen=f"{HOST}:{port}", log_level="notice", connections=512,
            user="root" if os.geteuid() == 0 else None, modules=self._programs.modules[LUA] or (),
            directives=DIRECTIVES,
        )  # fmt: skip
        ours = nginx.Steelyard(
            lua_dir=CHECKOUT / "openresty", options=self._options(folder, hostile), pool=8,
            backend=f"{HOST}:{self._backend} reuseport",
        )  # fmt: skip
        general.temporary.mkdir(parents=True)
        text = nginx.steelyard(general, ours, title="Under attack.")
        (folder / "nginx.conf").write_text(text)
        part = parts.nginx(port, folder, log=log, program=self._programs.nginx)
        daemon = self._start(part, {"http": port}, log=log)
        daemon.wait_for("/", "nginx does not proxy")
        return daemon

    def _options(self, folder: Path, hostile: int | None) -> dict[str, object]:
        common = {"lb": "edge-1", "fetch_interval_s": 0.05, "report_interval_s": 0.1}
        servers = [f"{HOST}:{self._backend}"]
        if hostile is None:
            upstreams: dict[str, object] = {UPSTREAM: {"bootstrap": servers}}
            return {"memcached": [self._memcached], **common, "upstreams": upstreams}
        stranger = f"{HOST}:{hostile}"
        check = {"path": "/", "interval_s": 0.1, "timeout_s": 0.2}
        # More upstreams mean more requests for tables and more health checks.
        names = [UPSTREAM, *(f"u{number}" for number in range(9))]
        upstreams = {name: {"check": check, "bootstrap": [*servers, stranger]} for name in names}
        own = {"memcached": [stranger], "controller": [f"http://{stranger}"], "state_dir": str(folder)}
        return {**own, **common, "upstreams": upstreams}

    def _start(self, part: Part, ports: dict[str, int], *, log: Path | None = None) -> Daemon:
        log = log or self.folder / f"{part.name}-{next(iter(ports.values()))}.log"
        process = Process(part.command, log, environment=inherited_environment())
        self._stop.callback(process.stop)
        for port in ports.values():
            process.wait_listening(port)
        return Daemon(process, log, ports)
