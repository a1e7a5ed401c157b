"""Consistent hashing with bounded loads on a real nginx: keys stay, no server is drowned, few keys move."""

import http.client
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_max_conns import clients as clients
from openresty.tests.test_max_conns import edge_before, gates, hold
from openresty.tests.test_share_in_flight import BALANCERS, others, wait_for_state
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

KEYS = [f"/object-{number}" for number in range(60)]
# No bound: for tests of the keys' places, even with requests in flight on a busy machine.
AT_REST = "hash_balance_factor = 1000"


def edge_with(rig: Rig, settings: str, *, workers: int = 1, servers: str = "}") -> Edge:
    edge = rig.edge(options=f"upstreams = {{ web = {{ {settings} }} }},", workers=workers, servers=servers)
    edge.wait_for(1)
    return edge


def publish(rig: Rig, made: list[Backend], generation: int, weights: list[int] | None = None) -> None:
    rows = [
        (one.name, one.address, weight, "up")
        for one, weight in zip(made, weights or [1] * len(made), strict=True)
    ]
    rig.publish(rows, generation=generation, picker="bounded_hash", reporters=BALANCERS)


def served(rig: Rig, names: str) -> list[Backend]:
    made = [rig.backend(name) for name in names]
    publish(rig, made, 1)
    return made


def homes(edge: Edge) -> dict[str, str]:
    """Return the server of each key."""
    return {key: edge.get(key).server for key in KEYS}


@pytest.mark.parametrize("workers", [1, 3])
def test_every_worker_sends_a_key_to_the_same_server(rig: Rig, workers: int) -> None:
    served(rig, "abc")
    edge = edge_with(rig, f'hash_key = "uri", {AT_REST}', workers=workers)
    assert (edge.upstream()["picker"], edge.upstream()["picker_error"]) == ("bounded_hash", None)
    first = homes(edge)
    assert set(first.values()) == {"a", "b", "c"}
    assert homes(edge) == first


def test_only_the_keys_of_a_server_that_leaves_move_and_they_come_back(rig: Rig) -> None:
    made = served(rig, "abcde")
    edge = edge_with(rig, f'hash_key = "uri", {AT_REST}')
    first = homes(edge)
    publish(rig, made[1:], 2)
    edge.wait_for(2)
    then = homes(edge)
    assert {key for key in KEYS if first[key] != then[key]} == {key for key in KEYS if first[key] == "a"}
    publish(rig, made, 3)
    edge.wait_for(3)
    assert homes(edge) == first


def test_weights_that_change_each_second_move_no_key(rig: Rig) -> None:
    made = served(rig, "abc")
    edge = edge_with(rig, f'hash_key = "uri", {AT_REST}')
    first = homes(edge)
    publish(rig, made, 2, [1, 30, 9])
    edge.wait_for(2)
    assert homes(edge) == first


@pytest.mark.parametrize("workers", [1, 3])
def test_a_hot_key_drowns_no_server(rig: Rig, clients: ThreadPoolExecutor, workers: int) -> None:
    with gates(4) as servers:
        edge = edge_before(
            rig, servers, 'hash_key = "header:X-Key"', picker="bounded_hash", workers=workers, equal=True
        )
        held = hold(rig, clients, edge, servers, 20, headers={"X-Key": "hot"})
        # 1.25 times a quarter of 20, rounded up; a worker may miss another's latest request.
        assert max(server.inside for server in servers) <= 7 + workers - 1
        for server in servers:
            server.opened.set()
        assert {answer.result().status for answer in held} == {200}


def test_the_bound_goes_by_the_weights_of_the_moment(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(3) as servers:  # with weights 1, 2 and 3, and equal baselines
        edge = edge_before(rig, servers, 'hash_key = "header:X-Key"', picker="bounded_hash")
        held = hold(rig, clients, edge, servers, 12, headers={"X-Key": "hot"})
        for weight, server in enumerate(servers, start=1):
            assert server.inside <= -(-5 * 12 * weight // (4 * 6))
            server.opened.set()
        assert {answer.result().status for answer in held} == {200}


def test_a_key_s_second_choice_is_steady_too(rig: Rig) -> None:
    alive = [rig.backend(name) for name in "abc"]
    rows = [(one.name, one.address, 1, "up") for one in alive] + [("dead", rig.dead_address(), 1, "up")]
    rig.publish(rows, generation=1, picker="bounded_hash")
    settings = f'hash_key = "uri", {AT_REST}, max_fails = 0, eject = false'
    edge = edge_with(rig, settings)
    # The server is tried and refuses, is passed over because it fails, or is gone from the table.
    first = homes(edge)
    rig.wait_until(lambda: edge.peer("dead")["failed"] > 0, "the dead one was tried")
    assert homes(edge) == first
    rig.publish(rows[:3], generation=2, picker="bounded_hash")
    edge.wait_for(2)
    assert homes(edge) == first


def test_the_bound_goes_by_what_other_load_balancers_have_in_flight(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    hot, released = {"X-Key": "hot"}, threading.Event()
    for one in served(rig, "abcd"):
        one.delays_s["/"] = 0.05  # requests outlast the age of the figures
        one.holds["/held"] = released
    edges = []
    # The first nginx has practically no bound: all of its requests are at the key's own server.
    for name, factor in (("edge-1", 1000), ("edge-2", 1.25)):
        options = f"""share_in_flight = true, upstreams = {{ web = {{
            hash_key = "header:X-Key", hash_balance_factor = {factor} }} }},"""
        http = one_upstream(rig.memcached.port, options, "}").replace('lb = "edge-1"', f'lb = "{name}"')
        edges.append(rig.edge_of(http, folder=name))
        edges[-1].wait_for(1)
    first, second = edges
    with first.under_load(1), second.under_load(1):
        for edge in edges:
            wait_for_state(rig, edge, "on")
        home = clients.submit(first.get, "/", hot).result().server
        rig.wait_until(
            lambda: {second.get("/", hot).server for _ in range(9)} == {home}, "one has it at both"
        )
        asked = [clients.submit(first.get, "/held", hot) for _ in range(10)]
        rig.wait_until(lambda: (others(second)[home] or 0) >= 10, "the second knows of them")
        # It has no requests of its own, which would leave the key in its place.
        rig.wait_until(
            lambda: home not in {second.get("/", hot).server for _ in range(5)}, "it goes elsewhere"
        )
        released.set()
        assert {answer.result().status for answer in asked} == {200}


BODIES = """
  location /body { client_body_buffer_size 64k; proxy_pass http://web; }
}"""


def post(edge: Edge, body: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/body", body=body)
        response = connection.getresponse()
        response.read()
        return response.headers["X-Backend"]
    finally:
        connection.close()


def test_a_key_may_be_the_body(rig: Rig) -> None:
    served(rig, "abc")
    edge = edge_with(rig, f'hash_key = "body", {AT_REST}', servers=BODIES)
    bodies = [f"prompt {number} " + "x" * 9000 for number in range(20)]
    first = [post(edge, body) for body in bodies]
    assert len(set(first)) > 1
    assert [post(edge, body) for body in bodies] == first


def test_a_key_may_be_what_a_function_says(rig: Rig) -> None:
    served(rig, "abc")
    by_prefix = "hash_key = function() return tonumber(string.match(ngx.var.uri, '%d+')) end"
    edge = edge_with(rig, f"{by_prefix}, {AT_REST}")
    assert edge.upstream()["hash_key"] == "function"
    for number in range(10):
        assert len({edge.get(f"/{number}/{page}").server for page in range(5)}) == 1
    assert len({edge.get(f"/{number}/").server for number in range(30)}) == 3


def test_requests_without_a_key_go_by_weight(rig: Rig) -> None:
    served(rig, "abc")
    edge = edge_with(rig, 'hash_key = "cookie:session"')
    assert set(edge.shares(30, "/?sleep_s=0.005").values()) <= set(range(6, 16))


def test_a_function_that_fails_is_told_and_its_requests_are_served(rig: Rig) -> None:
    served(rig, "abc")
    edge = edge_with(rig, "hash_key = function() error('no tenant') end")
    assert set(edge.shares(30)) == {"a", "b", "c"}
    assert edge.logged("upstream web: the function in hash_key fails") == 1
    assert edge.logged("no tenant") == 1
