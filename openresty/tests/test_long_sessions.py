"""Sessions of a server that left are closed after a grace, spread over a while; so are too old ones."""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.web_sockets import LOCATION, WebSockets, echoes, still_open
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

GRACE = "session_grace_s = 1.5, session_spread_s = 3,"
MORE = """
    location = /mark { content_by_lua_block {
      ngx.say(tostring(require("steelyard").mark("web", ngx.var.arg_id, "down")))
    } }
    location /session {
      proxy_pass http://web; header_filter_by_lua_block { require("steelyard").sticky() }
    }
    location /api/ { proxy_pass http://api/; proxy_set_header Upgrade $http_upgrade;
                     proxy_set_header Connection upgrade; }
  }
  upstream api {
    server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("api") } keepalive 8;
  }
  server {
    listen [::1]:@PORT@;
    location /socket {
      proxy_pass http://web/; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
    }
  }
"""


@dataclass
class Cluster:
    """Servers a and b, an nginx before them, and WebSockets."""

    rig: Rig
    servers: list[Backend]
    edge: Edge
    sockets: WebSockets
    generation: int = 1

    def publish(self, *states: str, upstream: str = "web") -> None:
        """Write a table: each server's state, or "" for one that is deleted."""
        rows = [
            (server.name, server.address, 1, state)
            for server, state in zip(self.servers, states, strict=True)
            if state
        ]
        self.rig.publish(rows, generation=self.generation, upstream=upstream, picker="least_conn")

    def leaves(self, how: str) -> None:
        """Make server a leave: drained, deleted or dead."""
        if how == "dead":
            assert self.edge.get("/mark?id=a").body == "true\n"
            return
        self.generation += 1
        self.publish("drain" if how == "drained" else "", "up")

    def closed(self) -> int:
        """Return the number of sessions that nginx has closed."""
        return int(self.edge.upstream()["sessions_closed"])


@pytest.fixture
def cluster(rig: Rig, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Start it; parametrized by the options of `web`."""
    servers = [rig.backend("a"), rig.backend("b")]
    options = f"upstreams = {{ web = {{ {request.param} eject = false }}, api = {{ {GRACE} }} }},"
    with WebSockets() as sockets:
        edge = rig.edge(options=options, servers=LOCATION + MORE, workers=2)
        made = Cluster(rig, servers, edge, sockets)
        for upstream in ("web", "api"):
            made.publish("up", "up", upstream=upstream)
            edge.wait_for(1, upstream=upstream)
        yield made


@pytest.mark.parametrize("cluster", [GRACE], indirect=True)
@pytest.mark.parametrize("how", ["drained", "deleted", "dead"])
def test_sessions_of_a_server_that_left_are_closed_one_after_the_other(cluster: Cluster, how: str) -> None:
    edge, sockets, rig = cluster.edge, cluster.sockets, cluster.rig
    sockets.open(edge, 60)
    at_a, at_b = sockets.at("a"), sockets.at("b")
    assert (len(at_a), len(at_b)) == (30, 30)
    cluster.leaves(how)
    rig.wait_until(lambda: 0 < still_open(at_a) < 30, "some are closed, and others are not yet")
    rig.wait_until(lambda: still_open(at_a) == 0, "all are closed")
    assert all(echoes(client) for client in at_b)
    rig.wait_until(lambda: cluster.closed() >= 30, "they are counted")
    if how != "deleted":
        rig.wait_until(lambda: edge.peer("a")["in_flight"] == 0, "they are in flight no more")
        assert edge.peer("a")["failed"] == 0
    assert edge.peer("b")["in_flight"] == 30


@pytest.mark.parametrize("cluster", [""], indirect=True)
def test_without_the_option_sessions_stay(cluster: Cluster) -> None:
    cluster.sockets.open(cluster.edge, 4, "/socket")
    other = cluster.sockets.open(cluster.edge, 4, "/api/socket")
    at_a = [client for client in cluster.sockets.at("a") if client not in other]
    cluster.generation += 1
    for upstream in ("web", "api"):
        cluster.publish("drain", "up", upstream=upstream)
    at_a_of_other = [client for client in other if cluster.sockets.clients[client] == "a"]
    cluster.rig.wait_until(lambda: still_open(at_a_of_other) == 0, "the other upstream's are closed")
    assert len(at_a) == 2
    assert all(echoes(client) for client in at_a)


@pytest.mark.parametrize("cluster", [GRACE + 'sticky = { cookie = "route" },'], indirect=True)
def test_short_requests_of_a_drained_server_go_on(cluster: Cluster) -> None:
    edge, rig = cluster.edge, cluster.rig
    cluster.sockets.open(edge, 20)
    at_a = cluster.sockets.at("a")
    answers = [edge.get("/session") for _ in range(8)]
    cookie = next(one.headers["Set-Cookie"].split(";")[0] for one in answers if one.server == "a")
    over, seen, failed = threading.Event(), [], []

    def ask() -> None:  # over one connection, as browsers do
        connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
        while not over.is_set():
            try:
                connection.request("GET", "/session?sleep_s=0.02", headers={"Cookie": cookie})
                answer = connection.getresponse()
                answer.read()
                seen.append((answer.status, answer.headers["X-Backend"]))
            except (OSError, http.client.HTTPException) as broken:
                failed.append(broken)
                connection.close()
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        cluster.leaves("drained")
        rig.wait_until(lambda: still_open(at_a) == 0, "the sessions are closed")
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failed
    assert set(seen) == {(200, "a")}


@pytest.mark.parametrize("cluster", [GRACE], indirect=True)
def test_sessions_that_another_upstream_has_at_the_server_stay(cluster: Cluster) -> None:
    edge, sockets = cluster.edge, cluster.sockets
    others = sockets.open(edge, 8, "/api/socket")
    ours = [client for client in sockets.open(edge, 8) if sockets.clients[client] == "a"]
    assert ours
    cluster.leaves("drained")
    cluster.rig.wait_until(lambda: still_open(ours) == 0, "the upstream's own are closed")
    assert all(echoes(client) for client in others)


@pytest.mark.parametrize("cluster", ["session_max_age_s = 4,"], indirect=True)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_sessions_are_closed_at_an_age_and_short_requests_and_idle_connections_are_not(
    cluster: Cluster, host: str
) -> None:
    edge, rig = cluster.edge, cluster.rig
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", edge.port, PATIENCE_S)) as kept:
        kept.request("GET", "/")
        kept.getresponse().read()
        own_port = kept.sock.getsockname()[1]
        first = cluster.sockets.open(edge, 8, host=host)
        rig.wait_until(lambda: still_open(first) < 8, "the first has its age")
        second = cluster.sockets.open(edge, 4, host=host)
        with edge.under_load(2, "/?sleep_s=0.05") as statuses:
            rig.wait_until(lambda: still_open(first) == 0, "all of the first have it")
        assert set(statuses) == {200}
        assert all(echoes(client) for client in second)
        kept.request("GET", "/")
        assert kept.getresponse().status == 200
        assert kept.sock.getsockname()[1] == own_port  # the same connection


@pytest.mark.parametrize("cluster", [GRACE], indirect=True)
def test_sessions_that_an_old_worker_has_are_closed_too(cluster: Cluster) -> None:
    edge, sockets, rig = cluster.edge, cluster.sockets, cluster.rig
    sockets.open(edge, 20)
    at_a, at_b = sockets.at("a"), sockets.at("b")
    edge.begin_reload()
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 10, "the new workers know of them")
    cluster.leaves("drained")
    rig.wait_until(lambda: still_open(at_a) == 0, "all are closed")
    assert all(echoes(client) for client in at_b)


@pytest.mark.parametrize("cluster", [GRACE], indirect=True)
def test_a_request_that_a_server_leaves_unanswered_is_tried_elsewhere(cluster: Cluster) -> None:
    edge, a = cluster.edge, cluster.servers[0]
    a.holds["/poll"] = threading.Event()
    with edge.under_load(1, "/poll") as statuses:
        cluster.rig.wait_until(lambda: edge.peer("a")["in_flight"] == 1, "one hangs")
        cluster.leaves("dead")
        cluster.rig.wait_until(lambda: len(statuses) > 5, "others answer it")
        a.holds["/poll"].set()
    assert set(statuses) == {200}
    assert cluster.closed() >= 1
