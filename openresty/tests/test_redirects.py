"""Internal redirects: a try counts for its own upstream, and a server is free once nginx has left it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_reports import Reports
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

LOCATIONS = """
location /dead { proxy_pass http://dead; error_page 502 504 = @spare; }
location @spare { rewrite ^ / break; proxy_pass http://spare; }
location /lost { recursive_error_pages on; proxy_pass http://dead; error_page 502 504 = @lost; }
location @lost { proxy_pass http://lost; error_page 502 = @steelyard_failure; }
location /files { proxy_pass http://files; }
location /passed-on { internal; rewrite ^ / break; proxy_pass http://spare; }
location /picky { proxy_pass http://picky; proxy_intercept_errors on; error_page 404 = @spare; }
location /priced { proxy_pass http://priced; proxy_intercept_errors on; error_page 404 = @dearer; }
location @dearer { rewrite ^ / break; proxy_pass http://dearer; }
location /tried { try_files /nothing @spare; }
location /rewritten { rewrite ^ /picky last; }
location /allowed { auth_request /allowed-by; rewrite ^ / break; proxy_pass http://spare; }
location = /allowed-by {
  internal; log_subrequest on; proxy_pass http://dead; error_page 502 504 = @spare_of_auth;
}
location @spare_of_auth { log_subrequest on; rewrite ^ / break; proxy_pass http://spare; }
location /full {
  access_by_lua_block { require("steelyard").limit("full") }
  proxy_pass http://full; proxy_intercept_errors on; error_page 404 = @full;
}
location @full {
  access_by_lua_block { require("steelyard").limit("full") }
  rewrite ^ / break; proxy_pass http://full;
}
}"""
UPSTREAMS = ("dead", "spare", "lost", "files", "picky", "priced", "dearer", "full")


def blocks(*names: str) -> str:
    """Return the upstream blocks of these upstreams."""
    return "".join(
        f"""
        upstream {name} {{
          server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("{name}") }}
        }}"""
        for name in names
    )


def only_peer(edge: Edge, upstream: str) -> Any:
    """Return the row of the only server of an upstream."""
    return edge.upstream(upstream)["peers"][0]


def test_each_try_is_judged_as_one_of_its_own_upstream(rig: Rig) -> None:
    dead, lost = rig.dead_address(), rig.dead_address()
    names = ("spare", "files", "picky", "priced", "dearer", "full")
    spare, files, picky, priced, dearer, full = (rig.backend(name) for name in names)
    for server, path in ((picky, "/picky"), (priced, "/priced"), (full, "/full")):
        server.statuses[path] = 404
    never_out = "max_fails = 0, eject = false"
    own = {
        "dead": (dead, "max_fails = 3, fail_timeout_s = 60, eject = false"),
        "spare": (spare.address, "max_fails = 3, eject = false, failure_statuses = { 418 }"),
        "lost": (lost, never_out),
        "files": (files.address, "max_fails = 1, fail_timeout_s = 0.5, eject = false"),
        "picky": (picky.address, f"{never_out}, failure_statuses = {{ 404 }}"),
        "priced": (priced.address, f'{never_out}, cost = "arg_tokens"'),
        "dearer": (dearer.address, f'{never_out}, cost = "arg_more_tokens"'),
        "full": (full.address, f"{never_out}, max_conns = 1"),
    }
    for name, server in (("priced", priced), ("dearer", dearer)):
        rig.publish([("server", server.address, 1, "up")], generation=1, upstream=name)
    listed = "".join(f'{name} = {{ bootstrap = {{"{at}"}}, {given} }}, ' for name, (at, given) in own.items())
    options = f"report_interval_s = 2, upstreams = {{ {listed} }},"
    edge = rig.edge(options=options, servers=LOCATIONS + blocks(*UPSTREAMS))
    for name in ("priced", "dearer"):
        edge.wait_for(1, upstream=name)

    # A server that refuses connections is out after max_fails tries, in its own upstream.
    assert [edge.get("/dead").server for _ in range(3)] == ["spare"] * 3
    rig.wait_until(lambda: only_peer(edge, "dead")["health"] == "fails", "the dead server is out")
    assert edge.logged(f"upstream dead: {dead} ({dead}) is out for 60 s: 3 tries got no answer") == 1
    assert only_peer(edge, "spare")["health"] == "ok"
    assert not edge.logged(f"upstream spare: {dead}")

    # The problem document names the upstream of each server.
    problem = edge.get("/lost").json()
    refused = "could not be connected to"
    assert problem["detail"] == f"upstream dead: {dead} {refused}; upstream lost: {lost} {refused}"
    assert problem["upstream"] == "lost"
    assert problem["tries"] == [
        {"peer": dead, "upstream": "dead", "status": 502, "what": refused},
        {"peer": lost, "status": 502, "what": refused},
    ]

    # A server that is out comes back by a probe whose answer leads to another upstream.
    files.stop()
    edge.get("/files")
    rig.wait_until(lambda: only_peer(edge, "files")["health"] == "fails", "it is out")
    files.restart()
    files.headers["X-Accel-Redirect"] = "/passed-on"

    def is_back() -> bool:
        assert edge.get("/files").server in ("spare", "")
        return bool(only_peer(edge, "files")["health"] == "ok")

    rig.wait_until(is_back, "its answers take it back")
    assert edge.logged(f"upstream files: {files.address} ({files.address}) answers again") == 1

    # failure_statuses are those of the upstream that answered; no redirect comes between the last two.
    assert [edge.get(path).server for path in ("/picky", "/rewritten", "/tried")] == ["spare"] * 3
    rig.wait_until(lambda: only_peer(edge, "picky")["failed"] == 2, "both answers of 404 are failures")

    # Costs are those of the upstream that a try was at.
    assert edge.get("/priced?tokens=7&more_tokens=50").server == "dearer"
    reports = {name: Reports(rig, name) for name in ("priced", "dearer")}

    def costs() -> dict[str, float]:
        return {name: report.total("server", "cost") for name, report in reports.items()}

    rig.wait_until(lambda: costs() == {"priced": 7, "dearer": 50}, "both costs are reported")

    # A subrequest counts for the upstream that it was sent to first.
    assert [edge.get("/allowed").server for _ in range(2)] == ["spare"] * 2

    def subrequests(name: str) -> tuple[int, int]:
        upstream = edge.upstream(name)
        return upstream["subrequests"], upstream["subrequests_counted"]

    rig.wait_until(lambda: subrequests("dead") == (2, 2), "both are counted")
    assert subrequests("spare") == (0, 0)

    # The request's own earlier try takes up no room.
    assert edge.get("/full").server == "full"
    rig.wait_until(lambda: only_peer(edge, "full")["completed"] == 2, "both of its tries")


BIG = 30_000_000  # more than the buffers of two sockets

RELEASE = """
  header_filter_by_lua_block { require("steelyard").release() }
  body_filter_by_lua_block { require("steelyard").release() }"""

# A server answers at /<upstream>/, and nginx goes on to content of its own, which the client reads slowly.
SLOWLY_READ = f"""
location /to_file/ {{ proxy_pass http://to_file; }}
location = /file {{ internal; alias @FOLDER@/big; }}
location /released/ {{ proxy_pass http://released; {RELEASE} }}
location = /released-file {{ internal; alias @FOLDER@/big; {RELEASE} }}
location /to_other/ {{ proxy_pass http://to_other; }}
location = /other {{ internal; rewrite ^ /?bytes={BIG} break; proxy_pass http://other; }}
location /limited/ {{
  access_by_lua_block {{ require("steelyard").limit("limited") }} proxy_pass http://limited;
}}
location /missing/ {{ proxy_pass http://missing; proxy_intercept_errors on; error_page 404 = /file; }}
location /twice/ {{ proxy_pass http://twice; }}
location = /second {{ internal; rewrite ^ / break; proxy_pass http://second; }}
location /buffered/ {{ proxy_pass http://buffered; }}
location /gone {{ proxy_pass http://gone; {RELEASE} }}
location /worked-on {{ proxy_pass http://to_file; }}
}}
"""
LEADING_TO = {
    "to_file": "/file", "released": "/released-file", "to_other": "/other", "limited": "/file",
    "twice": "/second", "second": "/file",
}  # fmt: skip


@contextlib.contextmanager
def slow_clients(edge: Edge, path: str, count: int) -> Iterator[list[bytes]]:
    """Ask for a large answer and read its status line; the rest is not read before the end."""
    with contextlib.ExitStack() as stack:
        statuses = []
        for _ in range(count):
            client = stack.enter_context(contextlib.closing(socket.socket()))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE_S)
            client.connect(("127.0.0.1", edge.port))
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: e\r\n\r\n".encode())
            statuses.append(client.recv(len("HTTP/1.1 200"), socket.MSG_WAITALL)[-3:])
        yield statuses


def test_a_server_is_free_when_nginx_has_left_it(rig: Rig) -> None:
    names = (*LEADING_TO, "missing", "buffered")
    servers = {name: rig.backend(name) for name in names}
    for name, to in LEADING_TO.items():
        servers[name].headers["X-Accel-Redirect"] = to
    servers["missing"].statuses["/missing/"] = 404
    other, gate = rig.backend("other"), threading.Event()
    servers["to_file"].holds["/worked-on"] = gate
    listed = "".join(
        f'{name} = {{ bootstrap = {{"{server.address}"}}, max_conns = 2 }},'
        for name, server in servers.items()
    )
    out_at_once = "max_fails = 1, fail_timeout_s = 0.2, eject = false, retries = 0"
    listed += f'gone = {{ bootstrap = {{"{rig.dead_address()}"}}, {out_at_once} }},'
    edge = rig.edge(
        options=f"upstreams = {{ {listed} }},",
        servers=f"{SLOWLY_READ} upstream other {{ server {other.address}; }} {blocks(*names, 'gone')}",
    )
    with (edge.log.parent / "big").open("wb") as big:
        big.truncate(BIG)
    for name in [name for name in names if name != "second"]:
        path = f"/{name}/?bytes={BIG if name == 'buffered' else 0}"
        with slow_clients(edge, path, 2) as first:
            if name == "buffered":
                # nginx reads the answer into a file; only then is it done with the server.
                rig.wait_until(lambda: only_peer(edge, "buffered")["in_flight"] == 0, "nginx has all of it")
            with slow_clients(edge, path, 2) as more:
                assert (name, first, more) == (name, [b"200"] * 2, [b"200"] * 2)
            rig.wait_until(lambda: all(only_peer(edge, at)["in_flight"] == 0 for at in names), "all are free")

    # An error page of nginx passes the same filters as an answer: a half-open server does not answer by it.
    edge.get("/gone")
    rig.wait_until(lambda: only_peer(edge, "gone")["health_reason"] == "a try got no answer", "it is out")
    rig.wait_until(lambda: only_peer(edge, "gone")["out_for_s"] is None, "it is half-open")
    edge.get("/gone")
    rig.wait_until(
        lambda: only_peer(edge, "gone")["health_reason"] == "it did not answer again", "it stays out"
    )
    assert not edge.logged("answers again")

    # A server that is still at work is full.
    threads = [threading.Thread(target=edge.get, args=["/worked-on"]) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        rig.wait_until(lambda: len(servers["to_file"].received) >= 2 + 2 + 2, "both requests are there")
        seen = {only_peer(edge, "to_file")["in_flight"] for _ in range(20)}
        assert (seen, edge.get("/worked-on").status) == ({2}, 503)
    finally:
        gate.set()
        for thread in threads:
            thread.join()
