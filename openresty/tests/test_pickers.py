"""Pickers on a real nginx: workers share their data, and pickers change without a reload."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

# So late that a busy machine's delays are below five times as much, which would override the weights.
SHORT = "/?sleep_s=0.005"
IN_FLIGHT = [each.name for each in picker_list.listed() if each.by_in_flight]


def rows(*peers: tuple[Backend, int]) -> list[tuple[str, str, int, str]]:
    return [(backend.name, backend.address, weight, "up") for backend, weight in peers]


def of_peers(edge: Edge, field: str) -> dict[str, int]:
    return {peer["id"]: peer[field] for peer in edge.upstream()["peers"]}


@contextmanager
def open_requests(edge: Edge, count: int) -> Iterator[None]:
    """Keep requests open while the block runs; then hang up."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(
                socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S)
            )
            client.sendall(b"GET /?sleep_s=300 HTTP/1.1\r\nHost: x\r\n\r\n")
        yield


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("picker", picker_list.own())
def test_every_picker_serves_the_weights_at_rest(rig: Rig, workers: int, picker: str) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 3), (b, 1)), generation=1, picker=picker)
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    served = edge.upstream()
    assert (served["picker"], served["picker_error"]) == (picker, None)
    if picker == "peak_ewma":  # at rest it follows the latencies, and these are equal
        assert set(edge.shares(100, SHORT)) == {"a", "b"}
        return

    def by_weight() -> bool:
        # One request at a time: nearly every choice is a tie. On a busy machine a worker may not have
        # counted the last request's end when another one picks. By weight it is 75, evenly 50.
        return 65 <= edge.shares(100, SHORT)["a"] <= 85

    # Two answers delayed by the machine make a server look slow. That fades in some seconds.
    rig.wait_until(by_weight, "requests follow the weights")


def test_a_new_picker_is_used_without_a_reload(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    edge = rig.edge(workers=2)
    rig.wait_until(lambda: len(edge.worker_pids()) == 2, "both workers are there")
    pids = edge.worker_pids()
    for generation, picker in enumerate(picker_list.own(), start=1):
        rig.publish(rows((a, 1), (b, 1)), generation=generation, picker=picker)
        edge.wait_for(generation)
        assert edge.upstream()["picker"] == picker
        assert sum(edge.shares(10).values()) == 10
    assert edge.worker_pids() == pids


def test_the_configuration_may_name_the_picker(rig: Rig) -> None:
    a = rig.backend("a")
    rig.publish(rows((a, 1)), generation=1, picker="vnswrr")
    edge = rig.edge(options='upstreams = { web = { picker = "least_conn" } },')
    edge.wait_for(1)
    assert edge.upstream()["picker"] == "least_conn"


@pytest.mark.parametrize("picker", [each.name for each in picker_list.listed() if each.library])
def test_a_picker_of_lua_resty_balancer_serves_or_names_its_package(rig: Rig, picker: str) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 3), (b, 1)), generation=1, picker=picker)
    edge = rig.edge()
    edge.wait_for(1)
    served = edge.upstream()
    shares = edge.shares(40)
    if served["picker"] != picker:
        assert "lua-resty-balancer" in served["picker_error"]
        assert sum(shares.values()) == 40
    else:  # if it is installed, it must work
        assert served["picker_error"] is None
        assert shares == {"a": 30, "b": 10}


@pytest.mark.parametrize("workers", [1, 4])
def test_what_one_worker_has_in_flight_all_of_them_see(rig: Rig, workers: int) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish(rows((a, 1)), generation=1, picker="least_conn")
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    with open_requests(edge, 4):
        rig.wait_until(lambda: of_peers(edge, "in_flight") == {"a": 4}, "four requests are in flight")
        rig.publish(rows((a, 1), (b, 1)), generation=2, picker="least_conn")
        edge.wait_for(2)
        assert edge.shares(20) == {"b": 20}  # in every worker
    rig.wait_until(lambda: of_peers(edge, "in_flight") == {"a": 0, "b": 0}, "all are counted off")


@pytest.mark.parametrize("workers", [1, 4])
def test_hcl_goes_by_the_latency_that_requests_met_whichever_worker_they_had(rig: Rig, workers: int) -> None:
    slow, quick = rig.backend("slow"), rig.backend("quick")
    slow.delays_s["/"] = 0.3
    rig.publish(rows((slow, 1), (quick, 1)), generation=1, picker="hcl")
    edge = rig.edge(workers=workers)
    edge.wait_for(1)
    # Two requests find it slow, and again every 10 s: on a busy machine 40 requests may take that long.
    assert edge.shares(40).get("slow", 0) <= 8


def test_a_server_that_was_slow_for_a_moment_is_soon_used_again(rig: Rig) -> None:
    slow, *others = (rig.backend(name) for name in "abcde")
    slow.delays_s["/"] = 6
    rig.publish(rows(*((each, 1) for each in (slow, *others))), generation=1, picker="vnswrr2")
    edge = rig.edge()
    edge.wait_for(1)
    with ThreadPoolExecutor(10) as clients:
        list(clients.map(edge.get, ["/"] * 20))
    assert edge.shares(20).get("a", 0) <= 1
    slow.delays_s["/"] = 0
    # By its fading latency alone, it would be left out for longer than this waits.
    rig.wait_until(lambda: edge.shares(20).get("a", 0) >= 3, "all have their share")


def test_a_killed_worker_leaves_nothing_in_flight(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    edge = rig.edge(workers=2)
    for turn, picker in enumerate(IN_FLIGHT):
        rig.publish(rows((a, 1)), generation=2 * turn + 1, picker=picker)
        edge.wait_for(2 * turn + 1)
        with open_requests(edge, 6):
            rig.wait_until(lambda: of_peers(edge, "in_flight") == {"a": 6}, "six requests are in flight")
            before = set(edge.worker_pids())
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            rig.wait_until(partial(are_new, edge, before), "nginx has started them again")
            rig.wait_until(lambda: of_peers(edge, "in_flight") == {"a": 0}, "nothing is shown in flight")
        rig.publish(rows((a, 1), (b, 1)), generation=2 * turn + 2, picker=picker)
        edge.wait_for(2 * turn + 2)
        shares = edge.shares(50, SHORT)
        if picker != "peak_ewma":  # it follows the latencies, which a busy machine may change
            # Pickers do not believe it: six failures would have kept requests away.
            assert shares["a"] >= 12, picker


def are_new(edge: Edge, before: set[int]) -> bool:
    """Tell whether nginx has two workers, and none of these."""
    pids = edge.worker_pids()
    return len(pids) == 2 and before.isdisjoint(pids)
