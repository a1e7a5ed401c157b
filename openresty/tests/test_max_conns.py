"""max_conns: no server has more requests in flight. When all are full, a request waits or is refused."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.backend import Backend, CrowdServer
from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


class Gate:
    """A server whose requests end when it is opened, or after `busy_s`; it counts simultaneous ones."""

    def __init__(self, busy_s: float = PATIENCE_S) -> None:
        self.opened = threading.Event()
        self.inside = self.most = 0
        lock = threading.Lock()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with lock:
                    gate.inside += 1
                    gate.most = max(gate.most, gate.inside)
                gate.opened.wait(busy_s)
                with lock:
                    gate.inside -= 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = CrowdServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Let all requests end, and stop listening."""
        self.opened.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def gates(count: int, busy_s: float = PATIENCE_S) -> Iterator[list[Gate]]:
    servers = [Gate(busy_s) for _ in range(count)]
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    """Return the threads of a hundred clients."""
    with ThreadPoolExecutor(100) as pool:
        yield pool


LOCATIONS = """
proxy_read_timeout 60s;
location /plain { proxy_pass http://web; }
location /limited {
  access_by_lua_block { require("steelyard").limit("web") }
  proxy_pass http://web;
} }"""


def edge_before(
    rig: Rig,
    servers: list[Gate],
    options: str,
    *,
    picker: str = "vnswrr2",
    workers: int = 1,
    equal: bool = False,
) -> Edge:
    peers = [(f"s{n}", server.address, 1 if equal else n + 1, "up") for n, server in enumerate(servers)]
    rig.publish(peers, generation=1, picker=picker)
    edge = rig.edge(options=f"upstreams = {{ web = {{ {options} }} }},", servers=LOCATIONS, workers=workers)
    edge.wait_for(1)
    return edge


def hold(
    rig: Rig,
    clients: ThreadPoolExecutor,
    edge: Edge,
    servers: list[Gate],
    count: int,
    path: str = "/plain",
    headers: dict[str, str] | None = None,
) -> list[Future[Answer]]:
    """Send requests that stay at the servers."""
    held = [clients.submit(edge.get, path, headers) for _ in range(count)]
    rig.wait_until(lambda: sum(server.inside for server in servers) == count, f"{count} requests are held")
    return held


@pytest.mark.parametrize("picker", picker_list.own())
def test_no_server_has_more_than_its_limit_whatever_the_picker(
    rig: Rig, clients: ThreadPoolExecutor, picker: str
) -> None:
    with gates(3) as servers:
        edge = edge_before(rig, servers, "max_conns = 4", picker=picker)
        held = hold(rig, clients, edge, servers, 12)
        assert [server.inside for server in servers] == [4, 4, 4]
        refused = [clients.submit(edge.get, "/plain") for _ in range(20)]
        assert {answer.result().status for answer in refused} == {503}
        for server in servers:
            server.opened.set()
        assert {answer.result().status for answer in held} == {200}
        assert [server.most for server in servers] == [4, 4, 4]


def test_workers_go_beyond_it_by_less_than_one_each(rig: Rig, clients: ThreadPoolExecutor) -> None:
    workers, limit = 3, 4
    with gates(2, busy_s=0.01) as servers:
        edge = edge_before(rig, servers, f"max_conns = {limit}", workers=workers)
        statuses = [answer.status for answer in clients.map(lambda _: edge.get("/plain"), range(600))]
        assert set(statuses) <= {200, 503}
        assert max(server.most for server in servers) < limit + workers
        web = edge.upstream()
        assert web["full"] == statuses.count(503)


@pytest.mark.parametrize("picker", ["vnswrr2", "bounded_hash"])
@pytest.mark.parametrize("path", ["/plain", "/limited"])
def test_servers_of_two_sizes_have_a_limit_each(
    rig: Rig, clients: ThreadPoolExecutor, picker: str, path: str
) -> None:
    with gates(3) as servers:
        rows = [(f"s{n}", server.address, 1, "up") for n, server in enumerate(servers)]
        own = {"s0": {"max_conns": 6}, "s1": {"max_conns": 1}}
        rig.publish(rows, generation=1, picker=picker, of_peers=own)
        options = f"max_conns = 3, queue = {{ size = 1, timeout_s = {PATIENCE_S} }}"
        edge = rig.edge(options=f"upstreams = {{ web = {{ {options} }} }},", servers=LOCATIONS)
        edge.wait_for(1)
        held = hold(rig, clients, edge, servers, 10, path)
        assert [server.inside for server in servers] == [6, 1, 3]
        refused = edge.get("/plain")
        assert refused.status == 503
        assert "all 3 servers have as many requests in flight as their max_conns" in refused.json()["detail"]
        assert [peer.get("max_conns") for peer in edge.upstream()["peers"]] == [6, 1, None]
        # A waiting request gets the first place that is free anywhere.
        waits = clients.submit(edge.get, "/limited")
        rig.wait_until(lambda: edge.upstream()["queued"] >= 1, "it waits")
        for server in servers:
            server.opened.set()
        assert {answer.result().status for answer in [*held, waits]} == {200}
        # A table may change only this value of a server.
        rig.publish(rows, generation=2, picker=picker, of_peers={"s0": {"max_conns": 7}})
        edge.wait_for(2)
        assert [peer.get("max_conns") for peer in edge.upstream()["peers"]] == [7, None, None]


def test_the_list_in_nginx_conf_has_limits_until_the_first_table(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    with gates(2) as servers:
        large, usual = (server.address for server in servers)
        listed = f'{{ id = "large", address = "{large}", max_conns = 4 }}, "{usual}"'
        options = f"upstreams = {{ web = {{ bootstrap = {{ {listed} }}, max_conns = 2 }} }},"
        edge = rig.edge(options=options, servers=LOCATIONS)
        hold(rig, clients, edge, servers, 6)
        assert [server.inside for server in servers] == [4, 2]
        assert edge.get("/plain").status == 503


@pytest.mark.parametrize("path", ["/plain", "/limited"])
def test_all_full_is_a_503_that_says_so(rig: Rig, clients: ThreadPoolExecutor, path: str) -> None:
    with gates(2) as servers:
        edge = edge_before(rig, servers, "max_conns = 3")
        hold(rig, clients, edge, servers, 6)
        answer = edge.get(path)
        assert answer.status == 503
        assert answer.json() == {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": "upstream web: all 2 servers have max_conns = 3 requests in flight",
            "upstream": "web",
            "tries": [],
        }
        assert edge.logged("upstream web: all 2 servers have max_conns = 3 requests in flight") == 1
        web = edge.upstream()
        assert (web["max_conns"], web["full"], web["queued"]) == (3, 1, 0)
        assert [peer["in_flight"] for peer in web["peers"]] == [3, 3]


def test_a_retry_finds_the_server_that_has_room(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(2) as servers:
        edge = edge_before(rig, servers, "max_conns = 2, max_fails = 0")
        hold(rig, clients, edge, servers, 3)
        full, free = sorted(servers, key=lambda server: server.inside, reverse=True)
        free.opened.set()
        rig.wait_until(lambda: edge.upstream()["peers"][servers.index(free)]["in_flight"] == 0, "it is free")
        peers = [(f"s{n}", server.address, 1, "up") for n, server in enumerate(servers)]
        rig.publish([*peers, ("dead", rig.dead_address(), 999, "up")], generation=2)
        edge.wait_for(2)
        assert {edge.get("/plain").status for _ in range(10)} == {200}
        assert (full.inside, full.most) == (2, 2)


QUEUED = "max_conns = 1, queue = { size = 5, timeout_s = 30 }"


@pytest.mark.parametrize("workers", [1, 3])
def test_who_waits_is_served_as_soon_as_there_is_room(
    rig: Rig, clients: ThreadPoolExecutor, workers: int
) -> None:
    with gates(1) as servers:
        options = "max_conns = 1, queue = { size = 50, timeout_s = 60 }"
        edge = edge_before(rig, servers, options, workers=workers)
        held = hold(rig, clients, edge, servers, 1, "/limited")
        waiting = [clients.submit(edge.get, "/limited") for _ in range(40)]
        rig.wait_until(lambda: edge.upstream()["queued"] == 40, "all of them wait")
        servers[0].opened.set()
        assert {answer.result().status for answer in (*held, *waiting)} == {200}
        assert servers[0].most <= workers  # each worker may find the server free in the same moment
        assert edge.upstream()["full"] == 0


def test_more_do_not_wait_than_the_queue_holds(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(1) as servers:
        edge = edge_before(rig, servers, QUEUED)
        held = hold(rig, clients, edge, servers, 1, "/limited")
        waiting = [clients.submit(edge.get, "/limited") for _ in range(5)]
        rig.wait_until(lambda: edge.upstream()["queued"] == 5, "five wait")
        assert edge.get("/limited").status == 503
        assert edge.get("/plain").status == 503  # without limit() in the location nothing waits
        servers[0].opened.set()
        assert {answer.result().status for answer in (*held, *waiting)} == {200}
        assert servers[0].most == 1


def test_nobody_waits_for_ever(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(1) as servers:
        edge = edge_before(rig, servers, "max_conns = 1, queue = { timeout_s = 0.2 }")
        hold(rig, clients, edge, servers, 1, "/limited")
        assert edge.get("/limited").json()["detail"].startswith("upstream web: all 1 servers have max_conns")
        assert (edge.upstream()["queued"], edge.upstream()["full"]) == (1, 1)


def test_a_body_that_waited_arrives_whole(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(1) as servers:
        options = "max_conns = 1, queue = { timeout_s = 30 }"
        a = rig.backend("a")
        edge = edge_before(rig, servers, options)
        hold(rig, clients, edge, servers, 1, "/limited")

        def post() -> int:
            connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
            connection.request("POST", "/limited", body=b"x" * 100_000)
            status = connection.getresponse().status
            connection.close()
            return status

        posted = clients.submit(post)
        rig.wait_until(lambda: edge.upstream()["queued"] == 1, "it waits")
        rig.publish([("a", a.address, 1, "up")], generation=2)  # a server with room
        assert posted.result() == 200
        assert [len(body) for _, _, body in a.received] == [100_000]


def test_a_session_goes_elsewhere_while_its_server_is_full(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(2) as servers:
        peers = [("held", servers[0].address, 1, "up")]
        rig.publish(peers, generation=1)
        location = """
            location /session {
                proxy_pass http://web; proxy_read_timeout 60s;
                header_filter_by_lua_block { require("steelyard").header() require("steelyard").sticky() }
            } }"""
        options = 'upstreams = { web = { max_conns = 1, sticky = { cookie = "route" } } },'
        edge = rig.edge(options=options, servers=location)
        edge.wait_for(1)
        servers[0].opened.set()
        cookie = {"Cookie": edge.get("/session").headers["Set-Cookie"].split(";")[0]}
        servers[0].opened.clear()
        servers[1].opened.set()
        held = clients.submit(edge.get, "/session", cookie)
        rig.wait_until(lambda: servers[0].inside == 1, "the session's server is full")
        rig.publish([*peers, ("other", servers[1].address, 1, "up")], generation=2)
        edge.wait_for(2)
        assert edge.get("/session", cookie).headers["X-Steelyard-Server"] == "other"
        servers[0].opened.set()
        assert held.result().headers["X-Steelyard-Server"] == "held"


CACHED = """
recursive_error_pages on;
proxy_cache_key $request_uri; proxy_cache_valid 200 1m;
location /front { access_by_lua_block { require("steelyard").limit("web") } proxy_pass http://web; }
location /cached {
  proxy_pass http://web; proxy_cache c; add_header X-Cache $upstream_cache_status;
  error_page 502 503 504 = @web_full;
}
location /closed {
  if ($arg_closed) { return 503; }
  proxy_pass http://web; error_page 502 503 504 = @web_full;
}
location @web_full {
  access_by_lua_block { require("steelyard").after_full("web") }
  proxy_pass http://web; proxy_cache c; error_page 502 503 504 @steelyard_failure;
} }
proxy_cache_path @FOLDER@/cache keys_zone=c:1m;"""


def edge_with_a_cache(rig: Rig) -> tuple[Backend, Edge]:
    server = rig.backend("a")
    rig.publish([("a", server.address, 1, "up")], generation=1)
    options = (
        f"upstreams = {{ web = {{ max_conns = 1, queue = {{ timeout_s = {PATIENCE_S} }}, eject = false }} }},"
    )
    edge = rig.edge(options=options, servers=CACHED)
    edge.wait_for(1)
    return server, edge


def test_what_a_cache_has_waits_for_no_server(rig: Rig, clients: ThreadPoolExecutor) -> None:
    _, edge = edge_with_a_cache(rig)
    assert edge.get("/cached").headers["X-Cache"] == "MISS"
    held = clients.submit(edge.get, "/cached?sleep_s=2")
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "the server is full")
    assert edge.get("/cached").headers["X-Cache"] == "HIT"
    assert not held.done()
    assert edge.upstream()["queued"] == 0
    missed = edge.get("/cached?other")
    assert (missed.status, held.result().status, edge.upstream()["queued"]) == (200, 200, 1)
    assert edge.get("/cached?other").headers["X-Cache"] == "HIT"  # the waiting request has filled the cache
    # No server was asked, so none has failed.
    rig.wait_until(lambda: edge.peer("a")["completed"] == 3, "all are counted")
    assert edge.peer("a")["failed"] == 0


def test_only_who_found_all_full_is_sent_again(rig: Rig) -> None:
    _, edge = edge_with_a_cache(rig)
    rig.publish([("dead", rig.dead_address(), 1, "up")], generation=2)
    edge.wait_for(2)
    answer = edge.get("/cached?failing")
    assert answer.status == 502
    assert "could not be connected to" in answer.json()["detail"]
    rig.wait_until(lambda: edge.peer("dead")["failed"] == 1, "it is counted")
    assert edge.get("/closed?closed=1").status == 503  # nginx's own
    assert (edge.peer("dead")["picks"], edge.upstream()["queued"]) == (1, 0)


@pytest.mark.parametrize("path", ["/front", "/cached"])
def test_who_sends_a_long_body_waits_at_its_end(rig: Rig, clients: ThreadPoolExecutor, path: str) -> None:
    _, edge = edge_with_a_cache(rig)
    with socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode() + b".")
        time.sleep(0.3)  # nginx has looked at it by now
        held = clients.submit(edge.get, "/front?sleep_s=1")
        rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "the server is full")
        client.sendall(b".")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert held.result().status == 200
    assert edge.upstream()["queued"] == 1


def test_a_client_that_left_gives_its_place_to_another(rig: Rig, clients: ThreadPoolExecutor) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    queue = f"queue = {{ size = 2, timeout_s = {PATIENCE_S} }}"
    location = """
    lua_check_client_abort on;
    location /limited {
      access_by_lua_block { require("steelyard").limit("web") } proxy_pass http://web;
    } }"""
    edge = rig.edge(options=f"upstreams = {{ web = {{ max_conns = 1, {queue} }} }},", servers=location)
    edge.wait_for(1)
    held = clients.submit(edge.get, "/?sleep_s=3")
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "the server is full")
    first = socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S)
    first.sendall(b"GET /limited?first HTTP/1.1\r\nHost: x\r\n\r\n")
    rig.wait_until(lambda: edge.upstream()["queued"] == 1, "the first waits")
    second = clients.submit(edge.get, "/limited?second")
    rig.wait_until(lambda: edge.upstream()["queued"] == 2, "the second waits")
    assert edge.get("/limited?too_many").status == 503
    first.close()
    edge.status()  # nginx handles connections in order, so it has noticed
    third = clients.submit(edge.get, "/limited?third")
    assert [answer.result().status for answer in (held, second, third)] == [200, 200, 200]
    assert [path for path, _, _ in a.received] == ["/?sleep_s=3", "/limited?second", "/limited?third"]


def test_who_left_a_location_that_logs_itself_lets_the_next_go_first(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    with gates(1, busy_s=600) as servers:
        rig.publish([("s0", servers[0].address, 1, "up")], generation=1)
        location = """
        lua_check_client_abort on; proxy_read_timeout 600s;
        location /limited {
          access_by_lua_block { require("steelyard").limit("web") } proxy_pass http://web;
          log_by_lua_block { return }
        } }"""
        options = "upstreams = { web = { max_conns = 1, queue = { size = 2, timeout_s = 600 } } },"
        edge = rig.edge(options=options, servers=location)
        edge.wait_for(1)
        held = clients.submit(edge.get, "/")
        rig.wait_until(lambda: servers[0].inside == 1, "the server is full")
        with socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S) as first:
            first.sendall(b"GET /limited HTTP/1.1\r\nHost: x\r\n\r\n")
            rig.wait_until(lambda: edge.upstream()["queued"] == 1, "the first waits")
            second = clients.submit(edge.get, "/limited")
            rig.wait_until(lambda: edge.upstream()["queued"] == 2, "the second waits")
        # No further request: one in the same memory would find the first one's entry.
        servers[0].opened.set()
        assert [answer.result().status for answer in (held, second)] == [200, 200]


def test_a_version_of_http_that_nobody_knows_may_wait(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(1) as servers:
        edge = edge_before(rig, servers, QUEUED)
        held = hold(rig, clients, edge, servers, 1)
        with socket.create_connection(("127.0.0.1", edge.port), PATIENCE_S) as client:
            client.sendall(b"GET /limited HTTP/1.9\r\nHost: x\r\n\r\n")
            rig.wait_until(lambda: edge.upstream()["queued"] == 1, "it waits")
            servers[0].opened.set()
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert held[0].result().status == 200


OWN_LOG = """
location /own_log { proxy_pass http://web; log_by_lua_block { return } }
location /limited { access_by_lua_block { require("steelyard").limit("web") } proxy_pass http://web; }
location /hold { content_by_lua_block { ngx.sleep(tonumber(ngx.var.arg_s)) } }
}"""


def test_requests_that_ended_unlogged_leave_room_at_once(rig: Rig, clients: ThreadPoolExecutor) -> None:
    servers = [rig.backend(name) for name in "ab"]
    rig.publish([(one.name, one.address, 1, "up") for one in servers], generation=1)
    edge = rig.edge(options="upstreams = { web = { max_conns = 2 } },", servers=OWN_LOG)
    edge.wait_for(1)
    for path in ("/", "/limited"):
        ended = [clients.submit(edge.get, "/own_log?sleep_s=0.3") for _ in range(4)]
        assert {answer.result().status for answer in ended} == {200}
        # These take the memory of the ended ones: a request of Steelyard there would find and close them.
        held = [clients.submit(edge.get, "/hold?s=1") for _ in range(8)]
        time.sleep(0.1)
        assert [edge.get(path).status for _ in range(4)] == [200] * 4, path
        for answer in held:
            answer.result()
    rig.wait_until(lambda: edge.upstream()["unlogged"] == 8, "all of them are found")
    assert edge.upstream()["full"] == 0
