"""Failures are charged to the server that fails alone, and not to all servers of a failing URL."""

import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from testing.hostile_servers import serving as serving_with
from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration


def serving(rig: "Rig", names: str, settings: str, servers: str = "}") -> tuple[list["Backend"], "Edge"]:
    """Start servers of equal weight, and an nginx in front of them."""
    made = [rig.backend(name) for name in names]
    rig.publish([(one.name, one.address, 1, "up") for one in made], generation=1)
    edge = rig.edge(options=f"upstreams = {{ web = {{ {settings} }} }},", servers=servers)
    edge.wait_for(1)
    return made, edge


def test_a_server_whose_tries_all_fail_is_ejected_though_they_are_too_few_for_a_window(rig: "Rig") -> None:
    (_, b, _), edge = serving(
        rig, "abc", "eject = { interval_s = 0.1, requests = 1000000, consecutive = 5, base_s = 60 }"
    )
    b.statuses["/"] = 500
    rig.wait_until(lambda: edge.get() and edge.peer("b")["health"] == "ejected", "it is ejected")
    assert " tries in a row failed, and 0 of " in edge.peer("b")["health_reason"]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Yield an event for servers to wait for; it is set at the end of the test."""
    gate = threading.Event()
    yield gate
    gate.set()


IMPATIENT = """
    location /report { proxy_read_timeout 100ms; proxy_pass http://web; }
    location /page { proxy_read_timeout 100ms; proxy_pass http://web; }
}"""


def test_a_url_that_no_server_answers_takes_no_server_out(rig: "Rig", never: threading.Event) -> None:
    made, edge = serving(rig, "abcd", "max_fails = 3, fail_timeout_s = 60, eject = false", IMPATIENT)
    for one in made:
        one.holds["/report"] = never
    assert [edge.get(f"/report?{n}").status for n in range(6)] == [504] * 6  # three tries each: 4.5 a server
    assert edge.get("/").status == 200
    assert {row["health"] for row in edge.upstream()["peers"]} == {"ok"}
    # A server that does not answer where others do is out after three tries, of any URL.
    made[0].holds["/page"] = never
    rig.wait_until(
        lambda: edge.get("/page").status == 200 and edge.peer("a")["health"] == "fails", "it is out"
    )
    assert edge.peer("a")["health_reason"] == "3 tries got no answer"
    assert edge.logged("is out for") == 1


IN_CHUNKS = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
BODIES = {
    "whole": IN_CHUNKS + b"0\r\n\r\n",
    "cut": IN_CHUNKS,
    "torn": IN_CHUNKS + b"9\r\nhel",
    "closed": b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
}


def breaking_off(connection: socket.socket) -> None:
    """Answer one request with the body that its path names, and hang up; `endless` does not end."""
    method, path = connection.recv(65536).decode().split()[:2]
    kind = path.rpartition("/")[2]
    answer = BODIES.get(kind, IN_CHUNKS)
    connection.sendall(answer.partition(b"5\r\n")[0] if method == "HEAD" else answer)
    if kind != "endless":
        connection.shutdown(socket.SHUT_WR)
    connection.recv(65536)


def asked(edge: "Edge", path: str, method: str = "GET", body: str = "") -> bytes:
    """Send a request, and return all that comes until nginx hangs up."""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as connection:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}\r\n{body}".encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


SEEN = """
    location /seen/ { body_filter_by_lua_block { require("steelyard").release() } proxy_pass http://web; }
    location /unbuffered/ {
        body_filter_by_lua_block { require("steelyard").release() } proxy_buffering off; proxy_pass http://web;
    }
    location /v1/ {
        body_filter_by_lua_block { require("steelyard.inference").answer() } proxy_pass http://web;
    }
}"""


def test_a_body_in_chunks_that_breaks_off_is_a_failure_where_nginx_sees_its_end(rig: "Rig") -> None:
    with serving_with(breaking_off) as port:
        options = f'upstreams = {{ web = {{ bootstrap = {{"127.0.0.1:{port}"}}, eject = false }} }},'
        edge = rig.edge(options=options, servers=SEEN)
        for path in ("/seen/whole", "/unbuffered/whole", "/seen/closed"):
            assert b"hello" in asked(edge, path)
        asked(edge, "/seen/whole", "HEAD")
        asked(edge, "/seen/cut", "HEAD")
        asked(edge, "/v1/whole", "POST", '{"model": "m", "prompt": "p"}')
        asked(edge, "/plain/cut")  # here nginx does not know
        with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
            client.sendall(b"GET /unbuffered/endless HTTP/1.1\r\nHost: x\r\n\r\n")
            client.recv(65536)  # and it leaves
        server = f"127.0.0.1:{port}"
        rig.wait_until(lambda: edge.peer(server)["completed"] == 8, "eight are counted")
        assert edge.peer(server)["failed"] == 0
        for path in ("/seen/cut", "/seen/torn", "/unbuffered/cut"):
            assert not asked(edge, path).endswith(b"0\r\n\r\n")
        asked(edge, "/v1/cut", "POST", '{"model": "m", "prompt": "p"}')
        rig.wait_until(lambda: edge.peer(server)["failed"] == 4, "four have failed")
        assert edge.peer(server)["completed"] == 8
