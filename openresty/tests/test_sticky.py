"""Sticky sessions: a client with the cookie gets its server, as long as that is eligible."""

import http.client
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import completed
from openresty.tests.test_examples import started as started
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

SECRET = "a-secret-of-the-sticky-tests"  # noqa: S105
COOKIE = re.compile(r"route=([0-9a-f]{16}); Path=/; Max-Age=86400; HttpOnly; SameSite=Lax")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_STICKY_SECRET", SECRET)


@dataclass
class Client:
    """Keeps nginx's cookie, and sends it with its next request."""

    edge: Edge
    cookie: str | None = None
    status: int = 0
    set_cookies: tuple[str, ...] = ()

    def ask(self, path: str = "/") -> str:
        """Ask over a connection of its own, so that any worker may answer; return the server."""
        connection = http.client.HTTPConnection("127.0.0.1", self.edge.port, timeout=PATIENCE_S)
        try:
            connection.request(
                "GET", path, headers={"Cookie": f"a=b; route={self.cookie}"} if self.cookie else {}
            )
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
        self.status = response.status
        self.set_cookies = tuple(response.headers.get_all("Set-Cookie") or ())
        for header in self.set_cookies:
            if header.startswith("route="):
                match = COOKIE.fullmatch(header)
                assert match, header
                self.cookie = match[1]
        return response.headers.get("X-Backend", "")


def publish(rig: Rig, edge: Edge, rows: list[tuple[Backend, int, str]], generation: int) -> None:
    """Publish a table of (server, weight, state), and wait until it is served."""
    peers = [(server.name, server.address, weight, state) for server, weight, state in rows]
    rig.publish(peers, generation=generation)
    edge.wait_for(generation)


def at(edge: Edge, server: str) -> Client:
    """Return a client with a session at this server."""
    for _ in range(1000):
        client = Client(edge)
        if client.ask() == server:
            return client
    pytest.fail(f"no session began at {server}")


def test_a_session_stays_at_its_server_and_new_ones_begin_by_weight(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("sticky.conf", workers=1)
    x, y = rig.backend("x"), rig.backend("y")
    publish(rig, edge, [(x, 3, "up"), (y, 1, "up")], 1)
    clients = [Client(edge) for _ in range(40)]
    first = [client.ask() for client in clients]
    assert Counter(first) == {"x": 30, "y": 10}
    assert {(client.status, len(client.set_cookies)) for client in clients} == {(200, 1)}
    for _ in range(2):
        assert [client.ask() for client in clients] == first
        assert {client.set_cookies for client in clients} == {()}  # each has its cookie

    rig.wait_until(lambda: completed(edge, "web") == 120, "all are counted")
    assert [edge.peer(name)["picks"] for name in "xy"] == [90, 30]
    assert edge.upstream()["sticky"] == "route"


def test_all_workers_and_load_balancers_with_one_secret_agree(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf", workers=4)
    servers = [rig.backend(name) for name in "vwxyz"]
    publish(rig, edge, [(server, 1, "up") for server in servers], 1)
    clients = [at(edge, server.name) for server in servers]
    for client, server in zip(clients, servers, strict=True):
        assert {(client.ask(), client.set_cookies) for _ in range(12)} == {(server.name, ())}
    edge.stop()

    def other(secret: str) -> Edge:
        sticky = f'sticky = {{ cookie = "route", secret = "{secret}", max_age_s = 86400 }}'
        location = """ location /sticky {
          proxy_pass http://web; header_filter_by_lua_block { require("steelyard").sticky() } } }"""
        another = rig.edge(options=f"upstreams = {{ web = {{ {sticky} }} }},", servers=location)
        another.wait_for(1)
        return another

    second = other(SECRET)
    for client, server in zip(clients, servers, strict=True):
        client.edge = second
        assert (client.ask("/sticky"), client.set_cookies) == (server.name, ())
    second.stop()

    third = other("not-" + SECRET)
    for client in clients:
        before, client.edge = client.cookie, third
        client.ask("/sticky")
        assert len(client.set_cookies) == 1
        assert client.cookie != before


def test_a_session_moves_once_when_its_server_fails(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf")
    x, y = rig.backend("x"), rig.backend("y")
    publish(rig, edge, [(x, 1, "up"), (y, 1, "up")], 1)
    client = at(edge, "x")
    x.stop()
    assert (client.ask(), client.status, len(client.set_cookies)) == ("y", 200, 1)
    x.restart()
    assert {(client.ask(), client.set_cookies) for _ in range(20)} == {("y", ())}


def test_a_session_leaves_a_server_that_health_has_taken_out(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf")
    x, y = rig.backend("x"), rig.backend("y")
    publish(rig, edge, [(x, 1, "up"), (y, 1, "up")], 1)
    client, others = at(edge, "x"), [Client(edge) for _ in range(5)]
    x.statuses["/failing"] = 500

    def ejected() -> bool:
        for other in others:
            other.cookie = client.cookie
            other.ask("/failing")
        at(edge, "y").ask()
        return bool(edge.peer("x")["health"] == "ejected")

    rig.wait_until(lambda: ejected() and client.ask() == "y", "x is ejected, and the session moves")


def test_a_drained_server_keeps_its_sessions_and_gets_no_new_ones(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("sticky.conf")
    x, y = rig.backend("x"), rig.backend("y")
    publish(rig, edge, [(x, 1, "up"), (y, 1, "up")], 1)
    client = at(edge, "x")
    publish(rig, edge, [(x, 1, "drain"), (y, 1, "up")], 2)
    assert {(client.ask(), client.set_cookies) for _ in range(20)} == {("x", ())}
    assert {Client(edge).ask() for _ in range(20)} == {"y"}

    publish(rig, edge, [(x, 1, "down"), (y, 1, "up")], 3)
    assert (client.ask(), len(client.set_cookies)) == ("y", 1)


def test_a_forged_cookie_counts_as_none(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf")
    x, drained = rig.backend("x"), rig.backend("drained")
    publish(rig, edge, [(x, 1, "up"), (drained, 1, "drain")], 1)
    for value in ("x", "drained", drained.address, "0" * 16, "%00", "a" * 4000, "route=x", '"', "=;="):
        client = Client(edge, value)
        assert (client.ask(), client.status, len(client.set_cookies)) == ("x", 200, 1), value
        assert client.cookie != value
        assert (client.ask(), client.set_cookies) == ("x", ())


def test_a_session_is_found_behind_stale_cookies_of_its_name(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf", workers=1)
    x, y = rig.backend("x"), rig.backend("y")
    publish(rig, edge, [(x, 3, "up"), (y, 1, "up")], 1)
    value = at(edge, "y").cookie
    for cookies in (
        [f"route=0123456789abcdef; route={value}"],
        [f"route=; x=1; route=old; route={value}; route=older"],
        ["route=0123456789abcdef", f"y=2; route={value}"],  # two headers
    ):
        for _ in range(8):
            connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
            connection.putrequest("GET", "/")
            for cookie in cookies:
                connection.putheader("Cookie", cookie)
            connection.endheaders()
            response = connection.getresponse()
            response.read()
            connection.close()
            assert response.headers["X-Backend"] == "y", cookies
            assert response.headers["Set-Cookie"] is None, cookies
    # Stale cookies alone are none: the session begins anew.
    stale = edge.get("/", {"Cookie": "route=0123456789abcdef; route=old"})
    assert COOKIE.fullmatch(stale.headers["Set-Cookie"])


def test_an_error_begins_no_session_and_the_servers_own_cookies_stay(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("sticky.conf")
    x = rig.backend("x")
    x.headers["Set-Cookie"] = "app=1; Path=/"
    x.statuses["/failing"] = 500
    publish(rig, edge, [(x, 1, "up")], 1)
    client = Client(edge)
    client.ask("/failing")
    assert (client.status, client.set_cookies) == (500, ("app=1; Path=/",))
    client.ask()
    assert sorted(header.split("=")[0] for header in client.set_cookies) == ["app", "route"]


def test_a_session_finds_its_server_where_connections_are_split(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    sticky = {
        "shards = 32 }": 'shards = 32, sticky = { cookie = "route", max_age_s = 86400 } }',
        "set_by_lua_block": 'header_filter_by_lua_block { require("steelyard").sticky() } set_by_lua_block',
    }
    edge = started("many-servers.conf", instead=sticky)
    servers = [rig.backend(f"s{number}") for number in range(10)]
    publish(rig, edge, [(server, 1, "up") for server in servers], 1)
    clients = [Client(edge) for _ in range(20)]
    first = [client.ask() for client in clients]
    assert [client.ask() for client in clients] == first
    assert len(set(first)) > 1


def test_one_line_for_all_locations_is_enough(rig: Rig) -> None:
    made = [rig.backend(name) for name in "ab"]
    rig.publish([(one.name, one.address, 1, "up") for one in made], generation=1)
    once = 'header_filter_by_lua_block { require("steelyard").sticky() }'
    locations = "location /one { proxy_pass http://web; } location /two { proxy_pass http://web; }"
    edge = rig.edge(
        options='upstreams = { web = { sticky = { cookie = "route", max_age_s = 86400 } } },',
        servers=f"{locations} location /static {{ return 204; }} }} {once}",
    )
    edge.wait_for(1)
    for path in ("/one", "/two"):
        client = Client(edge)
        assert len({client.ask(path) for _ in range(6)}) == 1
        assert client.cookie
    assert "Set-Cookie" not in edge.get("/static").headers
    assert "Set-Cookie" not in edge.get("/steelyard/status").headers
