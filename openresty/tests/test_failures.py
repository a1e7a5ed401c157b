"""A client's view when servers fail: another server, or a reason."""

import http.client
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from testing.hostile_servers import serving
from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration


def test_no_table_and_no_list_answers_502_and_says_so(rig: "Rig") -> None:
    answer = rig.edge().get()
    assert answer.status == 502
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json() == {
        "type": "about:blank",
        "title": "Bad Gateway",
        "status": 502,
        "detail": "upstream web: no weight table yet and no bootstrap list",
        "upstream": "web",
        "tries": [],
    }


def test_no_server_up_answers_502_with_each_server_s_state(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "down"), ("b", a.address, 1, "drain")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.get().json()["detail"] == "upstream web: no server is up: a is down, b is drain"


def test_all_servers_dead_answers_502_with_what_each_did(rig: "Rig") -> None:
    peers = [(f"s{n}", rig.dead_address(), 1, "up") for n in range(5)]
    rig.publish(peers, generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    problem = edge.get().json()
    tried = [row["peer"] for row in problem["tries"]]
    assert len(tried) == len(set(tried)) == 3  # the first, and two retries
    assert all(row["what"] == "could not be connected to" for row in problem["tries"])
    assert problem["detail"] == "upstream web: " + "; ".join(
        f"{peer} could not be connected to" for peer in tried
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_a_dead_server_is_retried_elsewhere(rig: "Rig", workers: int) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up"), ("dead", rig.dead_address(), 9, "up")], generation=1)
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    assert edge.shares(40) == {"a": 40}
    rig.wait_until(lambda: edge.peer("a")["completed"] == 40, "all are counted")
    assert edge.peer("dead")["failed"] == edge.peer("dead")["picks"] > 0
    assert edge.peer("dead")["completed"] == 0


def test_a_backup_is_the_last_resort_of_a_retry(rig: "Rig") -> None:
    spare = rig.backend("spare")
    rig.publish([("a", rig.dead_address(), 1, "up"), ("spare", spare.address, 1, "backup")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert edge.shares(5) == {"spare": 5}


def test_a_server_that_does_not_answer_in_time_gives_504(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(servers="location /late { proxy_read_timeout 500ms; proxy_pass http://web; } }")
    edge.wait_for(1)
    answer = edge.get("/late?sleep_s=60")
    assert answer.status == 504
    assert answer.json()["detail"] == "upstream web: a did not answer in time"


def test_an_error_of_the_server_itself_is_passed_on(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    assert (edge.get("/?status=503").status, edge.get("/?status=404").status) == (503, 404)
    rig.wait_until(lambda: edge.peer("a")["failed"] == 1, "503 counts as failed")
    rig.wait_until(lambda: edge.peer("a")["completed"] == 1, "404 counts as completed")


def one_answer(connection: socket.socket) -> None:
    """Answer one request, and hang up on the second, unannounced."""
    if connection.recv(65536):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Backend: rude\r\nContent-Length: 0\r\n\r\n")
        connection.recv(65536)


def test_the_only_server_is_asked_again_when_a_pooled_connection_was_closed(rig: "Rig") -> None:
    with serving(one_answer) as port:
        rig.publish([("rude", f"127.0.0.1:{port}", 1, "up")], generation=1)
        edge = rig.edge()
        edge.wait_for(1)
        assert edge.shares(10) == {"rude": 10}


def test_nginx_s_own_upstreams_live_in_the_same_server(rig: "Rig") -> None:
    a, own = rig.backend("a"), rig.backend("own")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(
        servers=f"""
            location /own {{ proxy_pass http://own; }}
            location /dead {{ proxy_pass http://dead; }}
            location /first {{
                proxy_pass http://dead; error_page 502 = @second;
            }}
            location @second {{ proxy_pass http://web; }}
            location /handover {{
                proxy_pass http://web; proxy_intercept_errors on; error_page 503 = @own;
            }}
            location @own {{ proxy_pass http://own; }}
        }}
        upstream own {{ server {own.address}; keepalive 4; }}
        upstream dead {{ server {rig.dead_address()}; }}
        """
    )
    edge.wait_for(1)
    assert edge.get("/own").server == "own"
    dead = edge.get("/dead")
    assert (dead.status, dead.json()["detail"]) == (502, "the server gave no valid answer")
    assert (edge.get("/first").status, edge.get("/first").server) == (200, "a")
    assert edge.get("/handover?status=503").status == 503  # from `own`, for the same request
    rig.wait_until(
        lambda: (edge.peer("a")["completed"], edge.peer("a")["failed"]) == (2, 1), "only ours are counted"
    )
    assert edge.peer("a")["in_flight"] == 0


def test_a_subrequest_is_balanced_and_leaves_nothing_in_flight(rig: "Rig") -> None:
    a, dead = rig.backend("a"), rig.dead_address()
    rig.publish([("a", a.address, 1, "up"), ("dead", dead, 1, "up")], generation=1)
    edge = rig.edge(
        servers="""
            location /guarded { auth_request /auth; proxy_pass http://web; }
            location = /auth { internal; proxy_pass http://web/; }
        }"""
    )
    edge.wait_for(1)
    assert {edge.get("/guarded").status for _ in range(10)} == {200}
    rig.wait_until(lambda: edge.peer("a")["completed"] == 10, "the requests are counted")
    assert edge.peer("a")["in_flight"] == edge.peer("dead")["in_flight"] == 0


SUBREQUESTS = {
    "auth_request": "auth_request /sub; proxy_pass http://other;",
    "mirror": "mirror /sub; proxy_pass http://other;",
    "ssi": "ssi on; ssi_types *; default_type text/html; proxy_pass http://other/ssi;",
}


@pytest.mark.parametrize("kind", SUBREQUESTS)
def test_a_subrequest_counts_where_its_location_logs_it(rig: "Rig", kind: str) -> None:
    a, dead = rig.backend("a"), rig.dead_address()
    rig.publish([("a", a.address, 1, "up"), ("dead", dead, 1, "up")], generation=1)
    edge = rig.edge(
        options="upstreams = { web = { max_fails = 3, fail_timeout_s = 600 } },",
        servers=f"""
            location = /asked {{ {SUBREQUESTS[kind]} }}
            location = /sub {{ internal; log_subrequest on; proxy_pass http://web/; }}
        }}
        upstream other {{ server 127.0.0.1:@PORT@; }}
        server {{
            listen 127.0.0.1:@PORT@; server_name other; default_type text/html; location / {{ return 200 x; }}
            location /ssi {{ return 200 '<!--#include virtual="/sub" -->'; }}
        }}
        """,
    )
    edge.wait_for(1)

    def out() -> bool:
        edge.get("/asked")
        return bool(edge.peer("dead")["health"] == "fails")

    rig.wait_until(out, "failed subrequests take the dead server out")
    chosen_for = edge.upstream()["subrequests"]
    rig.wait_until(lambda: edge.peer("a")["completed"] == chosen_for, "all are counted")
    web = edge.upstream()
    assert web["subrequests_counted"] == chosen_for
    rows = {peer["id"]: peer for peer in web["peers"]}
    assert rows["dead"]["failed"] == rows["dead"]["picks"] >= 3
    assert rows["a"]["latency_ms"] is not None
    assert rows["a"]["in_flight"] == rows["dead"]["in_flight"] == 0


def test_a_subrequest_that_ends_elsewhere_counts_its_tries_and_no_other(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    a.statuses["/"] = 503
    rig.publish([("a", a.address, 999, "up"), ("b", b.address, 1, "up")], generation=1)
    edge = rig.edge(
        options="upstreams = { web = { eject = false } },",
        servers=f"""
            location /asked {{ mirror /sub; proxy_pass http://{b.address}; }}
            location = /sub {{
                internal; proxy_pass http://web/; proxy_next_upstream http_503; error_page 502 503 = @done;
            }}
            location @done {{ log_subrequest on; return 204; }}
        }}""",
    )
    edge.wait_for(1)
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
        connection.request("PURGE", "/asked")  # its copy is not sent twice
        assert connection.getresponse().status == 200
        connection.close()
    rig.wait_until(lambda: edge.peer("a")["failed"] >= 5, "the tries are counted")
    rig.wait_until(lambda: edge.upstream()["subrequests_counted"] == 5, "all are counted")
    assert (edge.peer("a")["picks"], edge.peer("a")["failed"]) == (5, 5)


def test_a_subrequest_that_is_handed_on_counts_where_it_was_before(rig: "Rig") -> None:
    b = rig.backend("b")
    edge = rig.edge(
        options=f"""upstreams = {{
            web = {{ bootstrap = {{"{rig.dead_address()}"}} }}, other = {{ bootstrap = {{"{b.address}"}} }},
        }},""",
        servers="""
            location /asked { auth_request /sub; proxy_pass http://other; }
            location = /sub { internal; proxy_pass http://web/; error_page 502 = @other; }
            location @other { log_subrequest on; proxy_pass http://other; }
        }
        upstream other { server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("other") } }""",
    )
    assert edge.get("/asked").status == 200
    rig.wait_until(lambda: edge.upstream()["peers"][0]["failed"] == 1, "the failure is counted")


def test_subrequests_that_are_not_counted_are_shown(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(
        servers="""
            location /guarded { auth_request /auth; content_by_lua_block { ngx.exit(204) } }
            location = /auth { internal; proxy_pass http://web/; }
        }"""
    )
    edge.wait_for(1)
    assert [edge.get("/guarded").status for _ in range(5)] == [204] * 5
    rig.wait_until(lambda: edge.peer("a")["picks"] == 5, "they are picked for")
    web = edge.upstream()
    assert (web["subrequests"], web["subrequests_counted"]) == (5, 0)
    assert (edge.peer("a")["completed"], edge.peer("a")["in_flight"]) == (0, 0)


def port_of_ipv6() -> int:
    """Return a free port of ::1; skip the test without IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return int(probe.getsockname()[1])
    except OSError:
        pytest.skip("no ::1 here")


def test_a_server_on_ipv6(rig: "Rig") -> None:
    port = port_of_ipv6()
    edge = rig.edge(
        servers=f"}} server {{ listen [::1]:{port}; location / {{ add_header X-Backend six; return 200; }} }}"
    )
    rig.publish([("six", f"[::1]:{port}", 1, "up")], generation=1)
    edge.wait_for(1)
    assert edge.shares(3) == {"six": 3}
    rig.wait_until(lambda: edge.peer("six")["completed"] == 3, "they are counted")


def test_a_server_may_be_written_otherwise_than_nginx_writes_it(rig: "Rig") -> None:
    port_of_ipv6()
    # No listener, or no route: nginx's own words name the one that failed.
    written = [
        "FD00::13",
        "fd00:0:0:0:0:0:0:14",
        "1::2:3:4:5:6:7",
        "0:0:0:0:0:0:0:1",
        "::FFFF:7f00:1",
        "::202",
    ]
    listed = ", ".join(f'"[{ip}]:9"' for ip in written)
    edge = rig.edge(
        options=f"upstreams = {{ web = {{ bootstrap = {{{listed}}}, retries = 9, max_fails = 0 }} }},"
    )
    assert edge.get().status in (502, 504)
    rig.wait_until(
        lambda: [peer["failed"] for peer in edge.upstream()["peers"]] == [1] * len(written),
        "each try counts as failed, none as aborted",
    )


FALLBACK = """
    location /fallback {
      proxy_pass http://web; error_page 502 = @spare;
    }
    location /elsewhere {
      proxy_pass http://web; error_page 502 = @own;
    }
    location /kept {
      proxy_pass http://web/; error_page 404 @spare; proxy_intercept_errors on;
    }
    location @spare {
      header_filter_by_lua_block { local s = require "steelyard"; s.header() s.sticky() }
      return 200 "spare";
    }
    location @own {
      header_filter_by_lua_block { local s = require "steelyard"; s.header() s.sticky() }
      proxy_pass http://own;
    }
}
"""


def test_what_something_else_answers_with_the_server_s_status_names_no_server(rig: "Rig") -> None:
    web = rig.backend("web")
    web.statuses["/"] = 404
    sticky = '{ cookie = "route", secret = "a-secret-of-these-tests" }'
    edge = rig.edge(
        options=f'upstreams = {{ web = {{ bootstrap = {{"{web.address}"}}, sticky = {sticky} }} }},',
        servers=f"{FALLBACK} upstream own {{ server {rig.dead_address()}; }}",
    )
    answer = edge.get("/kept")
    assert (answer.status, answer.body) == (404, "spare")
    assert {"X-Steelyard-Server", "Set-Cookie"}.isdisjoint(answer.headers)
    assert edge.get("/").headers["X-Steelyard-Server"] == web.address


@pytest.mark.parametrize(("path", "server"), [("/fallback", ""), ("/elsewhere", "own")])
def test_what_something_else_answers_names_no_server_and_begins_no_session(
    rig: "Rig", path: str, server: str
) -> None:
    own = rig.backend("own")
    sticky = '{ cookie = "route", secret = "a-secret-of-these-tests" }'
    edge = rig.edge(
        options=f'upstreams = {{ web = {{ bootstrap = {{"{rig.dead_address()}"}}, sticky = {sticky} }} }},',
        servers=f"{FALLBACK} upstream own {{ server {own.address}; }}",
    )
    answer = edge.get(path)
    assert (answer.status, answer.server) == (200, server)
    assert {"X-Steelyard-Server", "Set-Cookie"}.isdisjoint(answer.headers)


def test_what_a_cache_answers_for_a_server_names_none(rig: "Rig") -> None:
    a, own = rig.backend("a"), rig.backend("own")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(
        servers=f"""
            location /cached {{
                proxy_pass http://own; proxy_cache c; proxy_cache_valid 200 1m; proxy_cache_key cached;
                header_filter_by_lua_block {{ require("steelyard").header() }}
            }}
        }}
        proxy_cache_path @FOLDER@/cache keys_zone=c:1m;
        upstream own {{ server {own.address}; }}"""
    )
    edge.wait_for(1)
    assert edge.get("/cached").server == "own"
    a.headers["X-Accel-Redirect"] = "/cached"
    answer = edge.get("/")
    assert (answer.status, answer.server) == (200, "own")
    assert "X-Steelyard-Server" not in answer.headers


SHARDS = "".join(
    f"""upstream web_{shard:02} {{
      server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("web") }}
    }}
    """
    for shard in range(2)
)


def test_a_server_that_was_chosen_for_one_upstream_answers_for_no_other(rig: "Rig") -> None:
    web, login = rig.backend("web"), rig.backend("login")
    edge = rig.edge(
        options=f"""upstreams = {{
          web = {{ bootstrap = {{"{web.address}"}}, shards = 2 }},
          login = {{ bootstrap = {{"{login.address}"}} }},
        }},""",
        servers=f"""
            location /closed {{
              set_by_lua_block $shard {{ return require("steelyard").shard("web") }}
              error_page 401 = @login;
              access_by_lua_block {{ ngx.exit(401) }}
              proxy_pass http://$shard;
            }}
            location @login {{ proxy_pass http://login; }}
        }}
        {SHARDS}
        upstream login {{ server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("login") }} }}
        """,
    )
    assert [edge.get("/closed").server for _ in range(3)] == ["login"] * 3
    assert edge.upstream("web")["peers"][0]["picks"] == 0


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/busy", 503), ("/sharded", 503)])
def test_what_nginx_itself_refuses_keeps_its_status(rig: "Rig", path: str, status: int) -> None:
    a = rig.backend("a")
    edge = rig.edge(
        options=f'upstreams = {{ web = {{ bootstrap = {{"{a.address}"}}, shards = 2 }} }},',
        servers=f"""
            location /nothing {{ error_page 404 @steelyard_failure; return 404; }}
            location /busy {{ return 503; }}
            location /sharded {{
              set_by_lua_block $shard {{ return require("steelyard").shard("web") }} return 503;
            }}
        }}
        {SHARDS}
        """,
    )
    answer = edge.get(path)
    assert answer.status == status
    problem = answer.json()
    assert (problem["status"], problem["detail"]) == (
        status,
        "no server was asked: nginx itself answers this",
    )


OWN_LOG = """
location /own_log { proxy_pass http://web; log_by_lua_block { return } }
location /handed_on { proxy_pass http://web; proxy_intercept_errors on; error_page 404 = @again; }
location @again { rewrite ^ /?sleep_s=4 break; proxy_pass http://web; }
}"""


def test_requests_that_a_location_logs_itself_are_not_in_flight_for_ever(rig: "Rig") -> None:
    a = rig.backend("a")
    a.statuses["/handed_on"] = 404
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(options="upstreams = { web = { max_conns = 8 } },", servers=OWN_LOG)
    edge.wait_for(1)
    with ThreadPoolExecutor(8) as clients:
        long_one = clients.submit(edge.get, "/handed_on")
        rig.wait_until(lambda: edge.peer("a")["picks"] == 2, "it is at its second server")
        for answer in clients.map(edge.get, ["/own_log?sleep_s=0.5"] * 7):
            assert answer.status == 200
        rig.wait_until(lambda: edge.upstream()["unlogged"] == 7, "they are found")
        assert edge.logged("upstream web: ") >= 1
        assert edge.logged("requests were counted as in flight after their end") >= 1
        assert long_one.result().status == 200
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == 0, "nothing is in flight")
    assert edge.upstream()["unlogged"] == 7


def not_logged(rig: "Rig") -> "Edge":
    """Start an nginx that is its own server, and that answers /own itself."""
    return rig.edge(
        options='upstreams = { web = { bootstrap = {"127.0.0.1:@PORT@"} } },',
        servers=f"""
        location /own {{
          header_filter_by_lua_block {{ require("steelyard").header() }}
          return 200 "x";
        }}
        {OWN_LOG}
        server {{
          listen 127.0.0.1:@PORT@; server_name web; location / {{ return 200 "x"; }}
          log_by_lua_block {{ }} # or what this server answers might be taken for one that was not logged
        }}""",
    )


def pipelined(*paths: bytes) -> bytes:
    return b"".join(b"GET %s HTTP/1.1\r\nHost: e\r\n\r\n" % path for path in paths)


def test_a_request_in_the_memory_of_one_that_was_not_logged_is_counted(rig: "Rig") -> None:
    edge, requests, answers = not_logged(rig), pipelined(b"/own_log", b"/"), b""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        for _ in range(100):  # most begin in the same millisecond as the previous one
            client.sendall(requests)
            while answers.count(b"HTTP/1.1 200") < 2 or not answers.endswith(b"\r\nx"):
                answers += client.recv(65536)
            answers = b""
    rig.wait_until(lambda: edge.upstream()["unlogged"] == 100, "those that were not logged are found")
    rig.wait_until(lambda: edge.upstream()["peers"][0]["completed"] == 100, "the others are counted")
    assert edge.upstream()["peers"][0]["in_flight"] == 0


def test_an_answer_of_nginxs_own_in_the_memory_of_such_a_request_names_no_server(rig: "Rig") -> None:
    edge, requests, answers = not_logged(rig), pipelined(b"/own_log", b"/own"), b""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        for _ in range(100):
            client.sendall(requests)
            while answers.count(b"HTTP/1.1 200") < 2 or not answers.endswith(b"\r\nx"):
                answers += client.recv(65536)
            assert b"x-steelyard-server" not in answers.lower().rpartition(b"http/1.1 200")[2]
            answers = b""
    rig.wait_until(lambda: edge.upstream()["unlogged"] == 100, "those that were not logged are found")
