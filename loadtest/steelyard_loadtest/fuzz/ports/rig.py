"""The daemons that are attacked, on free ports of loopback: memcached, a controller, an agent, an nginx."""

import contextlib
import http.client
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.fuzz.contract import CHECKOUT
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.found import LUA, Found
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.machine.process import Process

READY_S = 30.0

UPSTREAM = "upstreams: {web: {peers: [{id: server-1, address: '127.0.0.1:%d', baseline: 1}]}}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A program that runs: its process, the log, and the ports by what they are for."""

    process: Process
    log: Path
    ports: dict[str, int]

    def pids(self) -> list[int]:
        """Return the processes that serve."""
        self.process.check()
        return self.process.workers()


class Rig:
    """Starts daemons in a folder, and stops all of them; raises ProgramError where one does not start."""

    def __init__(self, folder: Path, found: Found) -> None:
        if found.memcached is None or found.modules[LUA] is None:
            raise SetupError("needs memcached and an nginx with Lua: run `make setup`")
        self._folder, self._found, self._stop = folder, found, contextlib.ExitStack()
        # Those of listeners are kept apart from each other by one call for all of them.
        self._ports: Iterator[int] = iter(free_ports(16))
        self._backend = next(self._ports)  # nginx's own server, behind it
        self._memcached = self._start_memcached(found.memcached)

    def close(self) -> None:
        """Stop everything, the last started first."""
        self._stop.close()

    def controller(self, *flags: str, environment: dict[str, str] | None = None, **ports: int) -> Daemon:
        """Start a controller with an upstream `web`; `memcached` may be given as a port."""
        api, check = next(self._ports), next(self._ports)
        config = self._folder / f"controller-{api}.yaml"
        config.write_text(UPSTREAM % self._backend)
        command = [
            sys.executable, "-m", "steelyard_controller", "--config", str(config), "--api-port", str(api),
            "--agent-check-port", str(check), "--memcached",
            f"127.0.0.1:{ports.get('memcached', self._memcached)}",
            "--state-url", "memory://", "--tick-s", "0.1", *flags,
        ]  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}
        daemon = self._start(
            "controller", command, {"api": api, "agent-check": check}, kept | (environment or {})
        )
        daemon.process.wait_listening(api)
        daemon.process.wait_listening(check)
        return daemon

    def agent(self) -> Daemon:
        """Start an agent with its endpoint."""
        port = next(self._ports)
        command = [
            sys.executable, "-m", "steelyard_agent", "--upstream", "web", "--peer", "server-1", "--scope",
            "host",
            "--memcached", f"127.0.0.1:{self._memcached}", "--orca", f":{port}",
        ]  # fmt: skip
        daemon = self._start("agent", command, {"orca": port})
        _until(lambda: _status(port, "/orca") == 200, "the agent has no sample", daemon.process)
        return daemon

    def nginx(self, *, hostile: int | None = None) -> Daemon:
        """Start an nginx; with `hostile` that port is its Memcached, its controller and one server."""
        port = next(self._ports)
        folder = self._folder / f"nginx-{port}"
        folder.mkdir()
        config = folder / "nginx.conf"
        config.write_text(
            _config(folder, self._found, port, self._backend, hostile, hostile or self._memcached)
        )
        log = folder / "error.log"
        command = [self._found.nginx, "-p", str(folder), "-c", str(config), "-e", str(log)]
        daemon = self._start("nginx", command, {"http": port}, log=log)
        daemon.process.wait_listening(port)
        _until(lambda: _status(port, "/") == 200, "nginx does not proxy", daemon.process)
        return daemon

    def _start_memcached(self, program: str) -> int:
        port = next(self._ports)
        user = ["-u", "nobody"] if os.geteuid() == 0 else []
        daemon = self._start("memcached", [program, "-l", "127.0.0.1", "-p", str(port), "-U", "0", *user], {})
        daemon.process.wait_listening(port)
        return port

    def _start(
        self,
        name: str,
        command: list[str],
        ports: dict[str, int],
        environment: dict[str, str] | None = None,
        log: Path | None = None,
    ) -> Daemon:
        log = log or self._folder / f"{name}-{next(iter(ports.values()), 0)}.log"
        process = Process(command, log, environment=environment)
        self._stop.callback(process.stop)
        return Daemon(process=process, log=log, ports=ports)


def _config(folder: Path, found: Found, port: int, backend: int, hostile: int | None, memcached: int) -> str:
    modules = "".join(f"load_module {file};\n" for file in found.modules[LUA] or ())
    bootstrap = ", ".join(f'"127.0.0.1:{number}"' for number in (backend, *([hostile] if hostile else [])))
    more = f'controller = {{"http://127.0.0.1:{hostile}"}}, state_dir = "{folder}",' if hostile else ""
    check = 'check = { path = "/", interval_s = 0.1, timeout_s = 0.2 },' if hostile else ""
    upstreams = [f"web = {{ {check} bootstrap = {{{bootstrap}}} }}"]
    # One upstream more is one more that asks for tables and checks servers.
    upstreams += [f"u{n} = {{ {check} bootstrap = {{{bootstrap}}} }}" for n in range(9 if hostile else 0)]
    return f"""{modules}{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log notice; worker_processes 1;
events {{ worker_connections 512; }}
http {{
  access_log off; lua_socket_log_errors off;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  lua_package_path "{CHECKOUT}/openresty/lua/?.lua;;"; lua_shared_dict steelyard 10m;
  init_by_lua_block {{ require "steelyard" }}
  init_worker_by_lua_block {{
    require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{memcached}"}}, lb = "edge-1", fetch_interval_s = 0.05,
      report_interval_s = 0.1,
      {more} upstreams = {{ {", ".join(upstreams)} }},
    }}
  }}
  log_by_lua_block {{ require("steelyard").log() }}
  upstream web {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("web") }} keepalive 8;
  }}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_connect_timeout 1s; proxy_read_timeout 2s;
  proxy_next_upstream error timeout invalid_header http_502 http_503;
  client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 2s;
  server {{ listen 127.0.0.1:{backend} reuseport; location / {{ return 200 "ok"; }} }}
  server {{
    listen 127.0.0.1:{port};
    error_page 502 503 504 = @steelyard_failure;
    location / {{ proxy_pass http://web; header_filter_by_lua_block {{ require("steelyard").header() }} }}
    location = /steelyard/status {{ content_by_lua_block {{ require("steelyard").status() }} }}
    location = /steelyard/metrics {{ content_by_lua_block {{ require("steelyard").metrics() }} }}
    location @steelyard_failure {{ content_by_lua_block {{ require("steelyard").failure() }} }}
  }}
}}
"""


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _until(holds: Callable[[], bool], what: str, process: Process) -> None:
    deadline = time.monotonic() + READY_S
    while not holds():
        process.check()
        if time.monotonic() > deadline:
            raise ProgramError(f"{what} within {READY_S:g} s: {process.last_words()}")
        time.sleep(0.05)
