"""Load balancers exchange failures: together they eject a server that each alone could not judge."""

import json
import time
from typing import Any

import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_sources import SECRET, signed

pytestmark = pytest.mark.integration

NAMES = ("edge-1", "edge-2", "edge-3")


def servers(rig: Rig, *, keyed: bool) -> list[Backend]:
    """Start three servers, with `b` failing at once, and publish them."""
    made = [rig.backend(name) for name in "abc"]
    made[1].statuses["/"] = 500
    rows = [
        {"id": each.name, "address": each.address, "weight": 10, "baseline": 1, "state": "up"}
        for each in made
    ]
    table = {
        "v": 1, "upstream": "web", "term": 1, "generation": 1, "issued_at_ms": int(time.time() * 1000),
        "law": "steelyard", "picker": "vnswrr", "reporters": list(NAMES), "peers": rows,
    }  # fmt: skip
    text = json.dumps(table)
    rig.memcached.set("steelyard:1:weights:web", signed(text) if keyed else text)
    return made


def balancer(rig: Rig, name: str, *, keyed: bool, shares: bool = True, base_s: float = 60) -> Edge:
    """Start an nginx of this name."""
    options = (
        f"share_in_flight = {'true' if shares else 'false'}, "
        + (f'key = "{SECRET}", ' if keyed else "")
        + f"upstreams = {{ web = {{ eject = {{ base_s = {base_s:g} }} }} }},"
    )
    http = one_upstream(rig.memcached.port, options, "}").replace('lb = "edge-1"', f'lb = "{name}"')
    edge = rig.edge_of(http, folder=name)
    edge.wait_for(1)
    return edge


def ask(edge: Edge) -> None:
    """Send eight requests: two or three fail, too few for an ejection, and then no more."""
    assert 2 <= [edge.get().status for _ in range(8)].count(500) <= 3


def health(edge: Edge) -> Any:
    """Return the health of `b`."""
    return edge.peer("b")["health"]


def wait_ejected(rig: Rig, edge: Edge) -> None:
    """Wait until `b` was ejected there; it may be back already."""
    rig.wait_until(lambda: edge.logged("is ejected"), "b is ejected at each")


def wait_out(rig: Rig, edge: Edge) -> None:
    """Wait until the worker sends nothing to `b`."""
    rig.wait_until(lambda: health(edge) == "ejected", "the worker knows")


def wait_back(rig: Rig, edge: Edge) -> None:
    """Wait until `b` serves again there."""
    rig.wait_until(lambda: edge.shares(9).get("b", 0) >= 2, "b is back")


@pytest.mark.parametrize("keyed", [False, True], ids=["unsigned", "signed"])
def test_a_server_is_ejected_at_all_of_them_where_each_sees_too_few_failures(rig: Rig, keyed: bool) -> None:
    servers(rig, keyed=keyed)
    edges = [balancer(rig, name, keyed=keyed) for name in NAMES]
    alone = balancer(rig, "edge-4", keyed=keyed, shares=False)
    for edge in (alone, *edges):
        ask(edge)
    for edge in edges:
        wait_ejected(rig, edge)
        assert edge.logged(" tries failed, and 0 of ") == 1
        assert edge.logged(" load balancers") == 1
        wait_out(rig, edge)
        assert "b" not in edge.shares(10)
        assert edge.status()["share_in_flight"]["failures_refused"] == 0
        assert not edge.complaints()
    assert health(alone) == "ok"


def test_it_is_back_at_all_of_them_where_it_serves_again(rig: Rig) -> None:
    _, b, _ = servers(rig, keyed=False)
    edges = [balancer(rig, name, keyed=False, base_s=1.5) for name in NAMES]
    for edge in edges:
        ask(edge)
    for edge in edges:
        wait_ejected(rig, edge)
    b.statuses.clear()
    for edge in edges:
        wait_back(rig, edge)
        assert edge.logged("is ejected") == 1


def forge(rig: Rig, *addresses: str, sign: bool = False) -> None:
    """Report failures of these servers in the names of two load balancers."""
    rows = {address: [0, 9, 99, 0] for address in addresses}
    for lb in NAMES[1:]:
        text = json.dumps({"lb": lb, "upstreams": {"web": {"order": [1, 1], "rows": rows}}})
        value = signed(text, "another key of the tests, 32 by.") if sign else text
        rig.memcached.set(f"steelyard:1:failures:{lb}", value)


@pytest.mark.parametrize("sign", [False, True], ids=["unsigned", "another key"])
def test_what_a_forger_says_is_refused_where_there_is_a_key(rig: Rig, sign: bool) -> None:
    _, b, _ = servers(rig, keyed=True)
    edge = balancer(rig, "edge-1", keyed=True)
    forge(rig, b.address, sign=sign)
    ask(edge)
    rig.wait_until(
        lambda: edge.status()["share_in_flight"]["failures_refused"] >= 6, "it is refused, and counted"
    )
    assert health(edge) == "ok"
    assert edge.logged("the failure report of edge-2 is refused") == 1


def test_what_a_forger_says_takes_out_nobody_who_does_well_where_there_is_no_key(rig: Rig) -> None:
    made = servers(rig, keyed=False)
    edge = balancer(rig, "edge-1", keyed=False)
    forge(rig, *(each.address for each in made))
    ask(edge)
    rig.wait_until(lambda: health(edge) == "ejected", "b fails, and two say so")
    assert edge.logged("of 3 load balancers") == 1
    made[0].statuses["/bad"] = 500
    for _ in range(20):
        edge.get()
    edge.get("/bad")
    edge.get("/bad")
    for _ in range(5):
        assert set(edge.shares(4)) == {"a", "c"}
        time.sleep(0.5)
    assert edge.logged("is ejected") == 1
