"""Retries over kept connections: nginx gives such a try back, but no request visits the whole cluster."""

import pytest

from openresty.tests.kept_connections import NEVER_KEPT, PROTOCOLS, KeepsConnections, keeping, sends, warm
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_retries import ask

pytestmark = pytest.mark.integration

# Settings of `retries`, and the servers that a request may visit.
VISITED = {"two": 3, "none": 1, "one": 2, "four": 5}
NUMBERS = {"two": 2, "none": 0, "one": 1, "four": 4}
OFF = "max_fails = 0, eject = false, retry_budget = false"
BLOCK = """
  upstream {name} {{
    server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("{name}") }} keepalive 64;
  }}"""


def start(
    rig: Rig,
    servers: list[KeepsConnections],
    locations: str,
    names: dict[str, int],
    more: dict[str, str] | None = None,
) -> Edge:
    """Start an nginx in which each upstream has these servers, the named number of retries, and `more`."""
    peers = [(f"s{n}", server.address, 1, "up") for n, server in enumerate(servers)]
    for name in ("web", *names):
        rig.publish(peers, generation=1, upstream=name)
    options = f"web = {{ {OFF} }}, "
    for name, count in names.items():
        options += f"{name} = {{ {OFF}, retries = {count}, {(more or {}).get(name, '')} }}, "
    blocks = "".join(BLOCK.format(name=name) for name in names)
    edge = rig.edge(options=f"upstreams = {{ {options} }},", servers=f"{locations} }} {blocks}")
    for name in ("web", *names):
        edge.wait_for(1, upstream=name)
    return edge


def hang_up(servers: list[KeepsConnections], *, on_used: bool = False) -> None:
    for server in servers:
        server.hangs_up, server.hangs_up_on_used = not on_used, on_used


def test_a_request_visits_no_more_servers_than_retries_allow(rig: Rig) -> None:
    locations = "".join(
        f"location /{name} {{ proxy_pass http://{name}; }} "
        f"location /{name}/checked {{ auth_request /check/{name}; proxy_pass http://web; }} "
        f"location /check/{name} {{ internal; proxy_pass http://{name}; }} "
        for name in NUMBERS
    )
    for limit in (1, 2, 3):
        locations += (
            f"location /limit/{limit} {{ proxy_next_upstream_tries {limit}; proxy_pass http://web; }} "
        )
    locations += "location /spent { proxy_pass http://spent; } "
    with keeping(6) as servers:
        budget = {"spent": "retry_budget = { share = 0, min_per_s = 0 }"}
        edge = start(rig, servers, locations, {**NUMBERS, "spent": 2}, budget)
        due = {f"/{name}": visited for name, visited in VISITED.items()}
        due |= {f"/limit/{limit}": limit for limit in (1, 2, 3)}
        for path, visited in due.items():
            for method in ("GET", "PUT"):
                warm(servers, lambda path=path: edge.get(path).status)  # type: ignore[misc]
                hang_up(servers)
                assert ask(edge, method, path) == 502
                assert sends(servers) == [1] * visited + [0] * (6 - visited), (method, path)
        for name, visited in VISITED.items():
            warm(servers, lambda name=name: edge.get(f"/{name}").status)  # type: ignore[misc]
            hang_up(servers)
            assert edge.get(f"/{name}/checked").status == 500  # nginx's answer if a check fails
            assert sends(servers) == [1] * visited + [0] * (6 - visited), f"auth_request, {name}"
        warm(servers, lambda: edge.get("/one").status)
        hang_up(servers)
        reasons = edge.get("/one").json()["detail"].split("; ")
        # OpenResty's nginx does not ask for a further try, so Steelyard does not refuse one.
        assert reasons[2:] in ([], ["retries = 1 allows no more tries"])
        sends(servers)
        # The budget bounds them, too: a first refusal is by Steelyard, later ones are by nginx or Steelyard.
        for _ in range(2):
            warm(servers, lambda: edge.get("/spent").status)
            hang_up(servers)
            answer = edge.get("/spent")
            assert sends(servers) == [1] + [0] * 5
            assert (answer.status, answer.json()["tries"][0]["status"]) == (502, 502)
        assert edge.upstream("spent")["retries"] == 0
        rig.wait_until(lambda: edge.upstream("spent")["retries_refused"] == 2, "each refusal is counted once")
        # A request that must not be done twice goes to one server.
        warm(servers, lambda: edge.get("/two").status)
        hang_up(servers)
        assert ask(edge, "POST", "/two") == 502
        assert sends(servers) == [1] + [0] * 5


def test_the_only_server_is_asked_again_once_and_not_without_retries(rig: Rig) -> None:
    locations = "".join(f"location /{name} {{ proxy_pass http://{name}; }} " for name in NUMBERS)
    locations += "location /limit { proxy_next_upstream_tries 1; proxy_pass http://two; } "
    with keeping(1) as servers:
        # The request's own place must not keep it from the server.
        edge = start(rig, servers, locations, NUMBERS, dict.fromkeys(NUMBERS, "max_conns = 1"))
        due = {"/two": 2, "/one": 2, "/four": 2, "/none": 1, "/limit": 1}
        for path, times in due.items():
            warm(servers, lambda path=path: edge.get(path).status)  # type: ignore[misc]
            hang_up(servers)
            assert ask(edge, "GET", path) == 502
            assert sends(servers) == [times], path
            # A connection closed while it was idle costs no client an answer, unless there are no retries.
            warm(servers, lambda path=path: edge.get(path).status)  # type: ignore[misc]
            hang_up(servers, on_used=True)
            assert ask(edge, "GET", path) == (200 if times == 2 else 502), path
            assert sends(servers) == [times], path
        warm(servers, lambda: edge.get("/two").status)
        hang_up(servers, on_used=True)
        assert ask(edge, "POST", "/two") == 502
        assert sends(servers) == [1]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_no_protocol_visits_more(rig: Rig, protocol: str) -> None:
    passed = "grpc_pass grpc://two;" if protocol == "grpc" else f"{protocol}_pass two;"
    passed = "proxy_pass http://two;" if protocol == "proxy" else passed
    kept = "fastcgi_keep_conn on;" if protocol == "fastcgi" else ""
    with keeping(5, protocol) as servers:
        edge = start(rig, servers, f"location /other {{ {kept} {passed} }}", {"two": 2})
        warm(servers, lambda: edge.get("/other").status)
        hang_up(servers)
        assert ask(edge, "GET", "/other") == 502
        used = [server.received for server in servers if server.received]
        assert used == [[protocol not in NEVER_KEPT]] * 3
