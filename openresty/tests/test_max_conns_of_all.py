"""A table's `max_conns`: a limit of requests at a server over all load balancers that share counts."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_share_in_flight import BALANCERS, balancer, exchange, of_others, wait_for_state

pytestmark = pytest.mark.integration


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    """Return the threads of some clients."""
    with ThreadPoolExecutor(20) as pool:
        yield pool


def limited(rig: Rig, max_conns: int, picker: str = "vnswrr2") -> Backend:
    """Start a server that answers at once, and keeps requests for /held."""
    server = rig.backend("a")
    server.holds["/held"] = threading.Event()
    rig.publish(
        [("a", server.address, 10, "up")],
        generation=1,
        picker=picker,
        max_conns=max_conns,
        reporters=BALANCERS,
    )
    return server


@contextlib.contextmanager
def held(rig: Rig, edge: Edge, clients: ThreadPoolExecutor, server: Backend, requests: int) -> Iterator[None]:
    """Keep requests in flight."""
    asked = [clients.submit(edge.get, "/held") for _ in range(requests)]
    rig.wait_until(lambda: edge.peer("a")["in_flight"] == requests, "they are in flight")
    try:
        yield
    finally:
        server.holds["/held"].set()
    assert {answer.result().status for answer in asked} == {200}


@pytest.mark.parametrize("picker", ["vnswrr2", "vnswrr"])
def test_a_server_has_no_more_from_all_of_them_than_the_table_says(
    rig: Rig, clients: ThreadPoolExecutor, picker: str
) -> None:
    server = limited(rig, 4, picker)
    first, second = (balancer(rig, name) for name in ("edge-1", "edge-2"))
    with held(rig, first, clients, server, 3):
        rig.wait_until(lambda: of_others(second) == 3, "the second knows of three")
        assert second.get().status == 200
        with held(rig, second, clients, server, 1):
            rig.wait_until(lambda: of_others(first) == 1, "the first knows of one")
            for edge in (first, second):
                answer = edge.get()
                assert answer.status == 503
                assert (
                    "have max_conns = 4 requests in flight here, or 4 of all load balancers"
                    in answer.json()["detail"]
                )
                assert edge.upstream()["full"] == 1
                assert edge.upstream()["max_conns_of_all"] == 4
    rig.wait_until(lambda: first.get().status == second.get().status == 200, "there is room again")


def test_a_server_s_own_limit_is_over_all_of_them_too(rig: Rig, clients: ThreadPoolExecutor) -> None:
    server = rig.backend("a")
    server.holds["/held"] = threading.Event()
    own = {"a": {"max_conns": 3}}
    rig.publish(
        [("a", server.address, 10, "up")], generation=1, picker="vnswrr", of_peers=own, reporters=BALANCERS
    )
    first, second = (balancer(rig, name) for name in ("edge-1", "edge-2"))
    with held(rig, first, clients, server, 3):
        rig.wait_until(lambda: second.get().status == 503, "the second knows of three")
    rig.wait_until(lambda: second.get().status == 200, "there is room again")


def test_it_holds_for_requests_that_are_too_short_for_picks_to_go_by_it(rig: Rig) -> None:
    limited(rig, 4)
    first, second = (balancer(rig, name) for name in ("edge-1", "edge-2"))
    with first.under_load(1), second.under_load(1) as statuses:
        wait_for_state(rig, second, "on")
        rig.wait_until(lambda: len(statuses) > 50, "requests of a millisecond")
        assert exchange(second)["state"] == "on"  # not late
    wait_for_state(rig, second, "steady")  # not at rest, so that the next request has the figures
    assert set(statuses) == {200}


def test_without_the_option_it_is_a_limit_of_this_nginx(rig: Rig, clients: ThreadPoolExecutor) -> None:
    server = limited(rig, 2)
    first, second = balancer(rig, "edge-1"), balancer(rig, "edge-2", option="false")
    with held(rig, first, clients, server, 2):
        assert second.get().status == 200
        assert first.get().status == 503


def test_limits_that_come_and_go_while_all_are_full_fail_no_request(
    rig: Rig, clients: ThreadPoolExecutor
) -> None:
    server = rig.backend("a")
    server.holds["/held"] = threading.Event()
    # A worker takes over a large table in slices, with requests in between. All rows are one full server.
    ids = ["a", *(f"row-{n}" for n in range(3000))]
    own = {"of_peers": {peer: {"max_conns": 1} for peer in ids}}

    def publish(generation: int) -> None:
        peers = [(peer, server.address, 1 + generation * n % 5, "up") for n, peer in enumerate(ids)]
        rig.publish(peers, generation=generation, **(own if generation % 2 else {}))  # type: ignore[arg-type]

    publish(1)
    edge = rig.edge(options='upstreams = { web = { eject = false, sticky = { cookie = "route" } } },')
    edge.wait_for(1)
    with held(rig, edge, clients, server, 1), edge.under_load(8, pause_s=0.003) as statuses:
        for generation in range(2, 6):
            publish(generation)
            edge.wait_for(generation)
    assert set(statuses) == {200, 503}
