"""TCP connections through stream {}: weights, failed connects, connections in flight, and the two pages.

Debian has no ngx_stream_lua. Without it these tests are skipped, and the end of the run names them.
OpenResty has it (STEELYARD_NGINX, see CONTRIBUTING.md).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from steelyard_loadtest.machine.find_programs import modules

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_dict_resize import is_saved
from testing.daemons import free_port
from testing.lua_bytecode import lua_path
from testing.nginx_under_test import OPENRESTY, load_modules
from testing.waiting import PATIENCE_S

NGINX = shutil.which("nginx")
MODULES = modules(NGINX, ("ngx_stream_module", "ngx_stream_lua_module")) if NGINX else None
LOAD = " ".join(f"load_module {file};" for file in MODULES or ())

pytestmark = pytest.mark.integration
needs_stream_lua = pytest.mark.skipif(
    MODULES is None,
    reason="this nginx has no ngx_stream_lua; name an OpenResty in STEELYARD_NGINX (CONTRIBUTING.md)",
)

EXAMPLE = OPENRESTY / "examples" / "stream.conf"


class Greeter:
    """A TCP server that sends its name, then waits until its client hangs up."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # stopped
            while True:
                threading.Thread(target=self._greet, args=self._socket.accept()[:1], daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(f"{self.name}\n".encode())
            while connection.recv(4096):
                pass

    def stop(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Stream(Edge):
    """An nginx whose stream {} proxies at `proxy`; its pages have the paths of an Edge."""

    def __init__(self, folder: Path, text: str, workers: int) -> None:
        self.proxy = free_port()
        super().__init__(folder, text.replace("@PROXY@", str(self.proxy)), workers)

    def connect(self) -> tuple[socket.socket, str]:
        """Open a connection; return it and its server, or "" if nginx closed it."""
        connection = socket.create_connection(("127.0.0.1", self.proxy), timeout=PATIENCE_S)
        return connection, connection.recv(100).decode().strip()

    def greeted(self, times: int) -> dict[str, int]:
        """Open short connections, and return the number that each server had."""
        counts: dict[str, int] = {}
        for _ in range(times):
            connection, name = self.connect()
            connection.close()
            counts[name] = counts.get(name, 0) + 1
        return counts


def stream_conf(memcached_port: int, options: str, workers: int) -> str:
    """Return an nginx.conf with the upstream `web`."""
    return f"""
{LOAD}
{"user root;" if os.geteuid() == 0 else ""}
daemon off; pid @FOLDER@/nginx.pid; error_log @FOLDER@/error.log notice; worker_processes {workers};
events {{ worker_connections 512; }}
stream {{
  lua_package_path "{lua_path()};;";
  lua_shared_dict steelyard_stream 10m;
  init_by_lua_block {{ require "steelyard.stream" }}
  init_worker_by_lua_block {{
    require("steelyard.stream").init_worker{{
      memcached = {{"127.0.0.1:{memcached_port}"}}, lb = "edge-1-tcp",
      fetch_interval_s = 0.1, report_interval_s = 0.3, {options}
    }}
  }}
  log_by_lua_block {{ require("steelyard.stream").log() }}
  upstream web {{
    server 0.0.0.1:1; balancer_by_lua_block {{ require("steelyard.stream").balance("web") }}
  }}
  server {{ listen 127.0.0.1:@PROXY@; proxy_pass web; proxy_connect_timeout 500ms; }}
  server {{ listen 127.0.0.1:@PORT@; content_by_lua_block {{ require("steelyard.stream").pages() }} }}
}}
"""


@pytest.fixture
def stream(rig: Rig, tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """Return a function that starts one; `bootstrap` and `options` as for an Edge."""
    with contextlib.ExitStack() as stack:

        def start(
            bootstrap: list[str],
            *,
            workers: int = 1,
            settings: str = "",
            text: str = "",
            connect_timeout: str = "500ms",
        ) -> Stream:
            listed = ", ".join(f'"{address}"' for address in bootstrap)
            options = f"upstreams = {{ web = {{ bootstrap = {{{listed}}}, {settings} }} }}"
            conf = stream_conf(rig.memcached.port, options, workers).replace("500ms", connect_timeout)
            made = Stream(tmp_path / "nginx", text or conf, workers)
            stack.callback(made.stop)
            return made

        yield start


@pytest.fixture
def servers() -> Iterator[list[Greeter]]:
    """Return the servers a and b."""
    made = [Greeter("a"), Greeter("b")]
    yield made
    for greeter in made:
        greeter.stop()


@needs_stream_lua
@pytest.mark.parametrize("workers", [1, 2])
def test_connections_follow_the_weights_without_a_reload(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter], workers: int
) -> None:
    a, b = servers
    edge = stream([a.address], workers=workers)
    assert edge.greeted(6) == {"a": 6}
    rig.publish([("a", a.address, 1, "up"), ("b", b.address, 3, "up")], generation=1)
    edge.wait_for(1)
    counts = edge.greeted(80)
    if workers == 1:
        assert counts == {"a": 20, "b": 60}  # vnswrr: whole cycles of 4
    assert set(counts) == {"a", "b"}
    rig.publish([("a", a.address, 1, "drain"), ("b", b.address, 3, "up")], generation=2)
    edge.wait_for(2)
    assert edge.greeted(8) == {"b": 8}
    rig.wait_until(lambda: sum(row["completed"] for row in edge.upstream()["peers"]) == 94, "all are counted")
    assert edge.peer("b")["failed"] == 0
    assert edge.peer("b")["latency_ms"] >= 0


@needs_stream_lua
def test_a_dict_of_another_size_begins_with_the_table(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    rig.publish([("b", servers[1].address, 1, "up")], generation=1)
    edge = stream([servers[0].address])
    edge.wait_for(1)
    rig.wait_until(lambda: is_saved(edge, "order/web"), "the table is saved")
    rig.memcached.stop()
    edge.rewrite("lua_shared_dict steelyard_stream 10m", "lua_shared_dict steelyard_stream 20m")
    edge.reload()
    assert edge.greeted(3) == {"b": 3}


@needs_stream_lua
def test_load_balancers_tell_each_other_of_their_connections(
    rig: Rig, tmp_path: Path, servers: list[Greeter]
) -> None:
    a, b = servers
    rig.publish(
        [("a", a.address, 1, "up"), ("b", b.address, 1, "up")], generation=1, picker="vnswrr2",
        reporters=["edge-1-tcp", "edge-2-tcp"],
    )  # fmt: skip
    options = "share_in_flight = true, upstreams = { web = {} }"
    with contextlib.ExitStack() as stack:
        edges = []
        for name in ("edge-1-tcp", "edge-2-tcp"):
            conf = stream_conf(rig.memcached.port, options, 1).replace("edge-1-tcp", name)
            edges.append(Stream(tmp_path / name, conf, 1))
            stack.callback(edges[-1].stop)
            edges[-1].wait_for(1)
        first, second = edges
        for edge in (first, second):
            for _ in range(3):
                stack.enter_context(edge.connect()[0])

        def known(edge: Stream) -> int:
            return sum(row["others_in_flight"] or 0 for row in edge.upstream()["peers"])

        rig.wait_until(lambda: known(first) == known(second) == 3, "each knows of the other's three")


@needs_stream_lua
def test_a_refused_connection_is_tried_elsewhere_and_takes_its_server_out(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    edge = stream([servers[0].address, rig.dead_address()], settings="fail_timeout_s = 3600")
    (dead,) = {row["id"] for row in edge.upstream()["peers"]} - {servers[0].address}

    def is_out() -> bool:
        assert edge.greeted(4) == {"a": 4}
        return bool(edge.peer(dead)["health"] == "fails")

    rig.wait_until(is_out, "the dead one is out")
    rig.wait_until(lambda: edge.peer(dead)["failed"] >= 3, "its failures are counted")
    assert edge.peer(dead)["completed"] == edge.peer(servers[0].address)["failed"] == 0
    met = edge.logged(f'upstream: "{dead}"')
    assert edge.greeted(8) == {"a": 8}
    assert edge.logged(f'upstream: "{dead}"') == met > 0


@needs_stream_lua
@pytest.mark.parametrize(
    ("settings", "connect_timeout"), [("", "500ms"), ("connect_timeout_s = 0.5", "300s")]
)
def test_a_connection_that_is_not_taken_in_time_is_tried_elsewhere(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter], settings: str, connect_timeout: str
) -> None:
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        host, port = full.getsockname()
        for _ in range(3):  # no accept: the first connection fills the queue, and later ones get no answer
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        addresses = [servers[0].address, f"{host}:{port}"]
        edge = stream(addresses, settings=settings, connect_timeout=connect_timeout)

        def has_failed() -> bool:
            assert edge.greeted(1) == {"a": 1}
            return bool(edge.peer(f"{host}:{port}")["failed"] >= 1)

        rig.wait_until(has_failed, "the timeout is a failure")


@needs_stream_lua
def test_open_connections_are_in_flight_and_whoever_has_none_gets_the_next(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    rig.publish(
        [(server.name, server.address, 1, "up") for server in servers], generation=1, picker="least_conn"
    )
    edge = stream([])
    edge.wait_for(1)

    def in_flight() -> list[int]:
        return [row["in_flight"] for row in edge.upstream()["peers"]]

    def reported() -> list[int]:
        peers = rig.report(lb="edge-1-tcp")["peers"]
        return [peers[peer]["in_flight"] for peer in sorted(peers)]

    held = [edge.connect() for _ in range(6)]
    assert sorted(name for _, name in held) == ["a"] * 3 + ["b"] * 3
    assert in_flight() == [3, 3]
    rig.wait_until(lambda: reported() == [3, 3], "the report has them")
    for connection, name in held:
        if name == "a":
            connection.close()
    rig.wait_until(lambda: in_flight() == [0, 3], "a is let go of")
    again = [edge.connect() for _ in range(3)]
    assert [name for _, name in again] == ["a"] * 3
    for connection, _ in [*held, *again]:
        connection.close()
    rig.wait_until(lambda: in_flight() == [0, 0], "nothing is in flight")


@needs_stream_lua
def test_a_connection_is_refused_while_all_servers_have_their_max_conns(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    peers = [(greeter.name, greeter.address, 1, "up") for greeter in servers]
    limits = [
        ({"max_conns": 1}, "max_conns = 1 requests in flight here, or 1 of all load balancers"),
        ({"of_peers": {"a": {"max_conns": 1}, "b": {"max_conns": 1}}}, "as many requests in flight as their"),
    ]
    edge = stream([])
    for generation, (limit, reason) in enumerate(limits, 1):
        rig.publish(peers, generation=generation, **limit)  # type: ignore[arg-type]
        edge.wait_for(generation)
        with contextlib.ExitStack() as stack:
            held = [edge.connect() for _ in peers]
            for connection, _ in held:
                stack.enter_context(connection)
            assert sorted(name for _, name in held) == ["a", "b"]
            refused, name = edge.connect()
            refused.close()
            assert name == ""
            assert edge.logged(f"all 2 servers have {reason}") == 1
            assert edge.upstream()["full"] == generation
        rig.wait_until(
            lambda: [row["in_flight"] for row in edge.upstream()["peers"]] == [0, 0], "both servers are free"
        )
        connection, name = edge.connect()
        connection.close()
        assert name in ("a", "b")
        rig.wait_until(
            lambda: [row["in_flight"] for row in edge.upstream()["peers"]] == [0, 0], "both servers are free"
        )


@needs_stream_lua
def test_connections_that_a_server_logs_itself_are_not_in_flight_for_ever(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    options = f'upstreams = {{ web = {{ bootstrap = {{"{servers[0].address}"}} }} }}'
    text = stream_conf(rig.memcached.port, options, 1)
    edge = stream([], text=text.replace("proxy_pass web;", "proxy_pass web; log_by_lua_block { return }"))
    held, _ = edge.connect()
    with held:
        # Enough that some begin in one millisecond, and in the memory of an earlier one.
        assert edge.greeted(100) == {"a": 100}
        rig.wait_until(lambda: edge.upstream()["unlogged"] == 100, "they are found")
        assert edge.upstream()["peers"][0]["in_flight"] == 1
    assert edge.logged("a server of stream {}, has a log_by_lua of its own") >= 1
    rig.wait_until(lambda: edge.upstream()["unlogged"] == 101, "the last is found")
    assert edge.upstream()["peers"][0]["in_flight"] == 0


@needs_stream_lua
def test_without_a_server_the_connection_is_closed_and_the_log_says_why(
    rig: Rig, stream: Callable[..., Stream]
) -> None:
    edge = stream([])
    assert edge.greeted(1) == {"": 1}
    assert edge.logged("steelyard: upstream web: no weight table yet and no bootstrap list") == 1
    rig.publish([("dead", rig.dead_address(), 1, "up")], generation=1)
    edge.wait_for(1)
    assert edge.greeted(1) == {"": 1}
    rig.wait_until(lambda: edge.peer("dead")["failed"] == 1, "it is counted")
    assert edge.peer("dead")["in_flight"] == 0


@needs_stream_lua
def test_the_pages_answer_http_clients_whom_they_are_for(stream: Callable[..., Stream]) -> None:
    edge = stream(["127.0.0.1:9"])
    metrics = edge.get("/steelyard/metrics")
    assert metrics.status == 200
    assert 'lb="edge-1-tcp"' in metrics.body
    assert edge.get("/steelyard/status?pretty").json()["lb"] == "edge-1-tcp"
    assert edge.get("/").status == 404
    assert edge.get("/steelyard/status", {"X-Forwarded-For": "10.0.0.1"}).status == 403
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        client.sendall(b"POST /steelyard/status HTTP/1.1\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 405 ")
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        client.sendall(b"x" * 9000)
        assert client.recv(100).startswith(b"HTTP/1.0 400 ")
    assert edge.get("/steelyard/status").status == 200


@needs_stream_lua
@pytest.mark.parametrize(
    "setting",
    [
        "shards = 4",
        'load_metrics_format = "TEXT"',
        'hash_key = "cookie:session"',
        "read_timeout_s = 1",
        'host = "web.internal"',
    ],
)
def test_an_option_that_is_for_http_is_refused_by_name(stream: Callable[..., Stream], setting: str) -> None:
    edge = stream(["127.0.0.1:9"], settings=setting)
    answer = edge.get("/steelyard/status")
    assert answer.status == 503
    assert f"option `upstreams.web.{setting.split()[0]}` is " in answer.json()["detail"]
    assert edge.greeted(1) == {"": 1}


@needs_stream_lua
def test_a_missing_shared_dict_is_named_with_where_it_belongs(
    rig: Rig, stream: Callable[..., Stream]
) -> None:
    options = 'dict = "other", upstreams = { web = {} }'
    edge = stream([], text=stream_conf(rig.memcached.port, options, 1))
    answer = edge.get("/steelyard/status")
    assert (answer.status, edge.greeted(1)) == (503, {"": 1})
    assert "add `lua_shared_dict other 10m;` to stream {}" in answer.json()["detail"]


@needs_stream_lua
def test_a_drained_server_s_connections_are_closed_after_the_grace(
    rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]
) -> None:
    edge = stream([], settings="session_grace_s = 1, session_spread_s = 2")
    rig.publish([(one.name, one.address, 1, "up") for one in servers], generation=1)
    edge.wait_for(1)
    opened = [edge.connect() for _ in range(12)]
    drained = servers[0].name
    rows = [(one.name, one.address, 1, "drain" if one.name == drained else "up") for one in servers]
    rig.publish(rows, generation=2)
    for connection, name in opened:
        if name == drained:
            assert connection.recv(1) == b""  # waits for it
    assert edge.upstream()["sessions_closed"] >= 1
    assert edge.peer(drained)["failed"] == 0
    for connection, name in opened:
        connection.setblocking(False)
        if name != drained:
            with pytest.raises(BlockingIOError):
                connection.recv(1)
        connection.close()


@needs_stream_lua
def test_the_example_serves(rig: Rig, stream: Callable[..., Stream], servers: list[Greeter]) -> None:
    text = EXAMPLE.read_text()
    user = "user root; " if os.geteuid() == 0 else ""
    for before, after in {
        "worker_processes auto;": f"daemon off; {user}pid @FOLDER@/nginx.pid; worker_processes 2;",
        "worker_rlimit_nofile 16384;": "",
        "/var/log/nginx/error.log": "@FOLDER@/error.log",
        "/usr/local/share/steelyard/lua/?.lua": lua_path(),
        "127.0.0.1:11211": f"127.0.0.1:{rig.memcached.port}",
        "listen 5432;": "listen 127.0.0.1:@PROXY@;",
        "listen 8080;": "listen 127.0.0.1:@PORT@;",
        "10.0.0.11:80": servers[0].address,
        "10.0.0.12:80": servers[1].address,
    }.items():
        assert before in text, before
        text = text.replace(before, after)
    edge = stream([], workers=2, text=text)
    assert edge.test_config() == ""
    assert set(edge.greeted(20)) == {"a", "b"}
    assert edge.upstream("db")["rung"] == "bootstrap"


def refusal_of(folder: Path, text: str) -> str:
    """Return nginx's message for a configuration that it refuses."""
    config = folder / "nginx.conf"
    config.write_text(f"pid {folder}/nginx.pid; daemon off; {text}")
    command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(config)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert run.returncode != 0
    return run.stderr


def test_http_is_told_that_the_module_is_for_stream(tmp_path: Path) -> None:
    init = 'init_by_lua_block { require "steelyard.stream" }'
    http = f'access_log off; lua_package_path "{lua_path()};;"; {init}'
    message = refusal_of(tmp_path, f"{load_modules()} error_log stderr; events {{}} http {{ {http} }}")
    assert 'steelyard.stream is for stream {}; in http {} it is require "steelyard"' in message


@needs_stream_lua
def test_stream_is_told_that_the_other_module_is_for_http(tmp_path: Path) -> None:
    stream = f'lua_package_path "{lua_path()};;"; init_by_lua_block {{ require "steelyard" }}'
    message = refusal_of(tmp_path, f"{LOAD} error_log stderr; events {{}} stream {{ {stream} }}")
    assert 'steelyard is for http {}; in stream {} it is require "steelyard.stream"' in message


@pytest.mark.skipif(MODULES is not None, reason="this nginx has ngx_stream_lua")
def test_an_nginx_without_the_module_names_the_directive_that_it_lacks(tmp_path: Path) -> None:
    module = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
    load = f"load_module {module};" if module.exists() else ""
    text = EXAMPLE.read_text().replace("/var/log/nginx/error.log", "stderr")
    assert 'unknown directive "' in refusal_of(tmp_path, load + text)
