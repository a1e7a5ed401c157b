"""Open sessions of a server still count after a reload, and when the server returns."""

from collections.abc import Iterator
from functools import partial

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.web_sockets import LOCATION, WebSockets

pytestmark = pytest.mark.integration

SHARED = """
    location = /shared {
      content_by_lua_block {
        ngx.print(tostring(ngx.shared.steelyard:get(ngx.var.arg_key)))
      }
    }
  }
"""


@pytest.fixture
def sockets() -> Iterator[WebSockets]:
    """Return WebSockets, and close them after the test."""
    with WebSockets() as made:
        yield made


def publish(rig: Rig, servers: list[Backend], generation: int, picker: str = "least_conn") -> None:
    rows = [(server.name, server.address, 1, "up") for server in servers]
    rig.publish(rows, generation=generation, picker=picker)


def has_logged(edge: Edge, text: str, times: int) -> bool:
    return edge.logged(text) == times


def in_flight(edge: Edge) -> dict[str, int]:
    return {row["id"]: row["in_flight"] for row in edge.upstream()["peers"]}


def workers_serving(edge: Edge, generation: int) -> int:
    tables = (worker["serving"].get("web", {}) for worker in edge.status()["workers"])
    return sum(table.get("generation") == generation for table in tables)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_old_workers_serve_after_a_reload_is_in_flight_until_it_ends(
    rig: Rig, sockets: WebSockets, workers: int
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    publish(rig, [a], 1)
    edge = rig.edge(servers=LOCATION + SHARED, workers=workers)
    edge.wait_for(1)
    first = sockets.open(edge, 6)
    before = set(edge.worker_pids())
    for left in (workers, 2 * workers):  # the second round has those of both reloads
        edge.begin_reload()
        rig.wait_until(partial(has_logged, edge, "gracefully shutting down", left), "they leave")
    rig.wait_until(lambda: in_flight(edge) == {"a": 6}, "the new workers know what the old ones serve")
    assert before & set(edge.worker_pids())
    publish(rig, [a, b], 2)
    rig.wait_until(lambda: edge.upstream()["generation"] == 2, "another server joins")
    rig.wait_until(lambda: len(in_flight(edge)) == 2, "it is served")
    # The old workers are still listed, but they fetch no more.
    rig.wait_until(lambda: workers_serving(edge, 2) == workers, "each new worker serves it")
    second = sockets.open(edge, 6)
    assert in_flight(edge) == {"a": 6, "b": 6}
    for client in first + second[:3]:
        client.close()
    rig.wait_until(lambda: in_flight(edge) == {"a": 0, "b": 3}, "what ended is in flight no more")
    rig.wait_until(lambda: len(edge.worker_pids()) == workers, "the old workers are gone")


def test_a_server_that_leaves_and_returns_has_its_open_requests_back(rig: Rig, sockets: WebSockets) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    publish(rig, [a, b], 1)
    edge = rig.edge(servers=LOCATION + SHARED, workers=2)
    edge.wait_for(1)
    clients = sockets.open(edge, 8)
    assert in_flight(edge) == {"a": 4, "b": 4}
    order = "/shared?key=reported/web/order"
    rig.wait_until(lambda: a.address in edge.get(order).body, "it is in a report")
    publish(rig, [b], 2)
    edge.wait_for(2)
    rig.wait_until(lambda: a.address not in edge.get(order).body, "its counts are forgotten")
    publish(rig, [a, b], 3)
    edge.wait_for(3)
    assert in_flight(edge) == {"a": 4, "b": 4}
    for client in clients:
        client.close()
    rig.wait_until(lambda: in_flight(edge) == {"a": 0, "b": 0}, "all have ended")


def test_after_a_scale_out_new_sessions_go_to_the_servers_that_joined(rig: Rig, sockets: WebSockets) -> None:
    servers = [rig.backend(f"server-{number}") for number in range(6)]
    publish(rig, servers[:4], 1, picker="vnswrr2")
    edge = rig.edge(servers=LOCATION + SHARED, workers=2)
    edge.wait_for(1)
    sockets.open(edge, 80)
    publish(rig, servers, 2, picker="vnswrr2")
    edge.wait_for(2)
    sockets.open(edge, 40)
    assert set(in_flight(edge).values()) == {20}
