"""Real daemons for the data plane's tests: memcached, nginx, and small servers behind it.

Everything listens on free ports of loopback and is stopped by the fixture
that started it, so the tests run beside each other and beside a cluster.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from testing import nginx_under_test
from testing.daemons import free_port
from testing.nginx_under_test import load_modules
from testing.waiting import PATIENCE_S, wait_until

OPENRESTY, LUA_PATH = nginx_under_test.OPENRESTY, nginx_under_test.LUA_PATH
PIECE_S = 0.1  # between two bytes of a slow body
NEVER_IN_A_LOG = ("[emerg]", "[alert]", "ngx.sleep(0)", "stack traceback", "attempt to", "runtime error")
# What nginx says of a worker that a test killed; the second, where it held the lock of a shared dict.
OF_A_KILLED_WORKER = ("exited on signal 9", "was locked by")


def listens(port: int) -> bool:
    """Tell whether somebody accepts connections on a port of loopback."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: str

    @property
    def server(self) -> str:
        """Return who answered, in its own words."""
        return self.headers.get("X-Backend", "")

    def json(self) -> Any:
        """Return the body, which must be JSON."""
        return json.loads(self.body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    name: ClassVar[str]
    statuses: ClassVar[dict[str, int]]
    delays_s: ClassVar[dict[str, float]]
    headers_sent: ClassVar[dict[str, str]]
    received: ClassVar[list[tuple[str, dict[str, str], bytes]]]
    connections: ClassVar[set[socket.socket]]

    def setup(self) -> None:
        super().setup()
        self.connections.add(self.connection)

    def finish(self) -> None:
        self.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.received.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        time.sleep(float(query.get("sleep_s", self.delays_s.get(url.path, 0))))
        try:
            if "Upgrade" in self.headers:
                self._upgrade(float(query.get("body_s", 0)))
            else:
                status = int(query.get("status", self.statuses.get(url.path, 200)))
                self._answer(status, float(query.get("body_s", 0)), int(query.get("bytes", 0)))
        except ConnectionError:  # nobody waits for it any more
            self.close_connection = True

    def _answer(self, status: int, body_s: float, extra: int) -> None:
        pieces = round(body_s / PIECE_S)
        self.send_response(status)
        self.send_header("X-Backend", self.name)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(extra + pieces))
        self.end_headers()
        self.wfile.write(b"." * extra)
        for _ in range(pieces):
            time.sleep(PIECE_S)
            self.wfile.write(b".")

    def _upgrade(self, open_s: float) -> None:
        self.send_response(101)
        self.send_header("X-Backend", self.name)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.end_headers()
        self.close_connection = True
        until = time.monotonic() + open_s
        with contextlib.suppress(TimeoutError):
            while (left_s := until - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not (piece := self.connection.recv(65536)):
                    return
                self.connection.sendall(piece)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # Hundreds may connect at a time, and who finds no place tries again after a second.
    request_queue_size = 512


class Backend:
    """A server that says its name; `?sleep_s=` and `?status=` make it slow or broken.

    After the header come `?bytes=` at once, then a body that takes `?body_s=`; what asks for an upgrade gets
    one that is open so long, and sends back what it gets. `statuses` holds what it answers on a path, 200
    elsewhere, `delays_s` how late, and `headers` what it adds to every answer; change them at any time.
    `received` has path, headers (in lower case) and body of each request.
    """

    def __init__(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        self.name = name
        self._tls = tls
        self.statuses: dict[str, int] = {}
        self.delays_s: dict[str, float] = {}
        self.headers: dict[str, str] = {}
        self.received: list[tuple[str, dict[str, str], bytes]] = []
        self._connections: set[socket.socket] = set()
        self._listen(free_port())
        self.address = f"127.0.0.1:{self._server.server_port}"

    def _listen(self, port: int) -> None:
        shared = {
            "name": self.name, "statuses": self.statuses, "delays_s": self.delays_s,
            "headers_sent": self.headers, "connections": self._connections, "received": self.received,
        }  # fmt: skip
        self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), shared))
        if self._tls:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and hang up; harmless when it has stopped."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restart(self) -> None:
        """Listen again, at the same address."""
        self._listen(self._server.server_port)


class Memcached:
    """A memcached, with values of up to 16 MB; `get` and `set` speak its text protocol."""

    def __init__(self) -> None:
        self.port = free_port()
        command = ["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-I", "16m"]
        self._process = subprocess.Popen([*command, *(["-u", "nobody"] if os.geteuid() == 0 else [])])
        wait_until(lambda: listens(self.port), "memcached listens")

    def set(self, key: str, value: bytes | str) -> None:
        """Store a value."""
        data = value if isinstance(value, bytes) else value.encode()
        answer = self._ask(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(data), data), b"\r\n")
        assert answer == b"STORED\r\n"

    def get(self, key: str) -> bytes | None:
        """Return a value."""
        answer = self._ask(b"get %s\r\n" % key.encode(), b"END\r\n")
        head, _, rest = answer.partition(b"\r\n")
        return rest[: int(head.split()[3])] if head.startswith(b"VALUE") else None

    def _ask(self, request: bytes, end: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            answer = b""
            while not answer.endswith(end):
                answer += connection.recv(65536)
            return answer

    def stop(self) -> None:
        """Kill it; harmless when it is dead."""
        self._process.kill()
        self._process.wait()


class Edge:
    """An nginx with Steelyard, in a folder of its own."""

    def __init__(self, folder: Path, config: str, workers: int) -> None:
        self.port = free_port()
        self.workers = workers
        self.log = folder / "error.log"
        folder.mkdir(exist_ok=True)
        path = folder / "nginx.conf"
        path.write_text(config.replace("@PORT@", str(self.port)).replace("@FOLDER@", str(folder)))
        self._command = ["nginx", "-p", str(folder), "-c", str(path), "-e", str(self.log)]
        self._process = subprocess.Popen(self._command)
        try:
            wait_until(lambda: self._process.poll() is not None or listens(self.port), "nginx listens")
        finally:
            if not listens(self.port):
                self._process.kill()
                self._process.wait()
        assert self._process.poll() is None, self.log.read_text()

    def get(self, path: str = "/", headers: dict[str, str] | None = None) -> Answer:
        """Ask over a connection of its own, so that any worker may answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers=headers or {})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    @contextlib.contextmanager
    def under_load(self, clients: int) -> Iterator[list[int]]:
        """Have so many ask, one request after the other, meanwhile; the list of statuses only grows."""
        statuses: list[int] = []
        over = threading.Event()

        def ask() -> None:
            while not over.is_set():
                statuses.append(self.get().status)

        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            yield statuses
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def shares(self, requests: int, path: str = "/") -> dict[str, int]:
        """Return how many of so many requests each server answered; all must succeed."""
        counts: dict[str, int] = {}
        for _ in range(requests):
            answer = self.get(path)
            assert answer.status == 200, answer
            counts[answer.server] = counts.get(answer.server, 0) + 1
        return counts

    def status(self) -> Any:
        """Return the status document."""
        answer = self.get("/steelyard/status")
        assert answer.status == 200, answer
        return answer.json()

    def upstream(self, name: str = "web") -> Any:
        """Return an upstream's part of the status document."""
        return self.status()["upstreams"][name]

    def peer(self, peer: str) -> Any:
        """Return a peer of `web` from the status document."""
        return next(row for row in self.upstream()["peers"] if row["id"] == peer)

    def wait_for(self, generation: int, term: int = 1, upstream: str = "web") -> None:
        """Wait until every worker serves that table."""

        def all_serve_it() -> bool:
            serving = [worker["serving"].get(upstream, {}) for worker in self.status()["workers"]]
            orders = [(table.get("term"), table.get("generation")) for table in serving]
            return orders == [(term, generation)] * self.workers

        wait_until(all_serve_it, f"all {self.workers} workers serve term {term}, generation {generation}")

    def wait_refused(self, reason: str, times: int = 1) -> None:
        """Wait until values of `web` were refused so often for that reason."""
        wait_until(lambda: self.upstream()["refused"][reason] >= times, f"a value refused: {reason}")

    def test_config(self) -> str:
        """Return what `nginx -t` says; nothing when all is well."""
        return subprocess.run([*self._command, "-t", "-q"], check=True, capture_output=True, text=True).stderr

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def reload(self) -> None:
        """Have nginx read its configuration again; return when the old workers are gone."""
        before = set(self.worker_pids())
        self._process.send_signal(signal.SIGHUP)
        wait_until(lambda: before.isdisjoint(self.worker_pids()), "the old workers are gone")

    def logged(self, text: str) -> int:
        """Count the lines of the error log that contain a text."""
        return sum(text in line for line in self.log.read_text().splitlines())

    def stop(self) -> None:
        """Stop; fail when the log shows that Lua or nginx itself broke."""
        self._process.terminate()
        self._process.wait()
        lines = (
            line
            for line in self.log.read_text().splitlines()
            if not any(mark in line for mark in OF_A_KILLED_WORKER)
        )
        broken = [line for line in lines if any(bad in line for bad in NEVER_IN_A_LOG)]
        assert not broken, broken[:5]


def config(http: str, workers: int, main: str = "") -> str:
    """Return a whole nginx.conf around what stands in http {}; `main` stands before it."""
    return f"""{main}
{load_modules()}
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid @FOLDER@/nginx.pid; error_log @FOLDER@/error.log notice; worker_processes {workers};
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path @FOLDER@/b; proxy_temp_path @FOLDER@/p; fastcgi_temp_path @FOLDER@/f;
  uwsgi_temp_path @FOLDER@/u; scgi_temp_path @FOLDER@/s;
  lua_package_path "{LUA_PATH};;";
  {http}
}}
"""


def one_upstream(memcached_port: int, options: str, servers: str) -> str:
    """Return what stands in http {} for an upstream `web`."""
    return f"""
  lua_shared_dict steelyard 10m;
  init_by_lua_block {{ require "steelyard" }}
  init_worker_by_lua_block {{
    require("steelyard").init_worker{{
      memcached = {{"127.0.0.1:{memcached_port}"}}, lb = "edge-1",
      fetch_interval_s = 0.1, report_interval_s = 0.3, {options}
    }}
  }}
  log_by_lua_block {{ require("steelyard").log() }}
  upstream web {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("web") }} keepalive 64;
  }}
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_connect_timeout 1s;
  proxy_read_timeout {PATIENCE_S:g}s;
  set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
  server {{
    listen 127.0.0.1:@PORT@;
    error_page 502 503 504 = @steelyard_failure;
    location / {{
      proxy_pass http://web; header_filter_by_lua_block {{ require("steelyard").header() }}
    }}
    location = /steelyard/status {{ content_by_lua_block {{ require("steelyard").status() }} }}
    location @steelyard_failure {{ content_by_lua_block {{ require("steelyard").failure() }} }}
    {servers}
"""


class Rig:
    """Makes what a test needs, and stops all of it afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stop = contextlib.ExitStack()
        self.memcached = Memcached()
        self._stop.callback(self.memcached.stop)

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        """Ask again and again until it holds; fail with `what` when it does not in time."""
        wait_until(holds, what)

    def dead_address(self) -> str:
        """Return an address where nobody listens, nor can while this rig is there."""
        # Bound without SO_REUSEADDR and not listened on: connections are refused, and a test that runs beside
        # this one cannot start a daemon there. The kernel chooses: a port that free_port gives may still have
        # connections in TIME_WAIT, which only SO_REUSEADDR passes over.
        held = self._stop.enter_context(contextlib.closing(socket.socket()))
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"

    def backend(self, name: str, tls: ssl.SSLContext | None = None) -> Backend:
        """Start a server, for https with `tls`."""
        backend = Backend(name, tls)
        self._stop.callback(backend.stop)
        return backend

    def edge(
        self,
        *,
        workers: int = 1,
        bootstrap: list[str] | None = None,
        options: str = "",
        servers: str = "}",
        main: str = "",
    ) -> Edge:
        """Start an nginx; `options` go to init_worker, `servers` follow the first server's locations."""
        listed = ", ".join(f'"{address}"' for address in bootstrap or [])
        if "upstreams" not in options:
            options += f"upstreams = {{ web = {{ bootstrap = {{{listed}}} }} }},"
        return self.edge_of(one_upstream(self.memcached.port, options, servers), workers=workers, main=main)

    def edge_of(self, http: str, *, workers: int = 1, main: str = "") -> Edge:
        """Start an nginx on what stands in http {}, and before it."""
        edge = Edge(self._folder / "nginx", config(http, workers, main), workers)
        self._stop.callback(edge.stop)
        return edge

    def publish(
        self,
        peers: list[tuple[str, str, int, str]],
        *,
        generation: int,
        term: int = 1,
        upstream: str = "web",
        picker: str = "vnswrr",
        **members: Any,
    ) -> None:
        """Write a weight table as the controller does; a peer is (id, address, weight, state)."""
        rows = [
            {"id": peer, "address": address, "weight": weight, "baseline": 1, "state": state}
            for peer, address, weight, state in peers
        ]
        document = {
            "v": 1, "upstream": upstream, "term": term, "generation": generation,
            "issued_at_ms": int(time.time() * 1000), "law": "steelyard", "picker": picker,
            **members, "peers": rows,
        }  # fmt: skip
        self.memcached.set(f"steelyard:1:weights:{upstream}", json.dumps(document))

    def stop(self) -> None:
        """Stop everything, the last started first."""
        self._stop.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return a memcached, and the means to start an nginx and servers."""
    for daemon in ("nginx", "memcached"):
        if shutil.which(daemon) is None:
            pytest.fail(f"{daemon} is not installed: run `make setup-tests`")
    made = Rig(tmp_path)
    try:
        yield made
    finally:
        made.stop()
