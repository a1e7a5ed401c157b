"""Near servers first on a real nginx: its own zone's factors, and its fallback."""

import json
import time

import pytest
from steelyard_protocol import weight_table
from steelyard_protocol.weight_table import TablePeer, WeightTable

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

STAY = ((1000, 1, 1), (1, 1000, 1), (1000, 1000, 1000))
SPILL = ((1000, 500, 1), (1, 1000, 1), (1000, 1000, 1000))


def publish(
    rig: Rig, servers: dict[str, Backend], generation: int, factors: tuple[tuple[int, ...], ...]
) -> None:
    """Write a table of servers with zones, and its head, as the controller does."""
    table = weight_table.with_digest(
        WeightTable(
            upstream="web", term=1, generation=generation, issued_at_ms=time.time_ns() // 1_000_000,
            law="steelyard", picker="vnswrr2", reporters=("edge-1",), zones=("x", "y"),
            zone_factors=factors,
            peers=tuple(
                TablePeer(id=one.name, address=one.address, weight=500, baseline=500, state="up", zone=zone)
                for zone, one in servers.items()
            ),
        )
    )  # fmt: skip
    rig.memcached.set("steelyard:1:weights:web", weight_table.encode(table))
    rig.memcached.set("steelyard:1:head:web", weight_table.encode_head(table))


def served_by(edge: Edge, requests: int) -> dict[str, int]:
    names = [edge.get().server for _ in range(requests)]
    return {name: names.count(name) for name in sorted(set(names))}


def test_requests_stay_until_the_head_says_that_some_are_to_cross(rig: Rig) -> None:
    servers = {"x": rig.backend("a"), "y": rig.backend("b")}
    publish(rig, servers, 1, STAY)
    edge = rig.edge(options='zone = "x",')
    edge.wait_for(1)
    assert served_by(edge, 60).get("b", 0) <= 1
    publish(rig, servers, 2, SPILL)
    edge.wait_for(2)
    assert served_by(edge, 60)["b"] == pytest.approx(20, abs=6)
    rows = {row["id"]: row["zone"] for row in edge.upstream()["peers"]}
    assert (rows, edge.status()["zone"]) == ({"a": "x", "b": "y"}, "x")


def test_a_load_balancer_without_a_zone_goes_by_the_weights(rig: Rig) -> None:
    servers = {"x": rig.backend("a"), "y": rig.backend("b")}
    publish(rig, servers, 1, STAY)
    edge = rig.edge()
    edge.wait_for(1)
    assert served_by(edge, 60) == pytest.approx({"a": 30, "b": 30}, abs=6)
    assert "zone" not in edge.status()


def test_no_request_fails_where_all_near_servers_are_dead(rig: Rig) -> None:
    servers = {"x": rig.backend("a"), "y": rig.backend("b")}
    publish(rig, servers, 1, STAY)
    edge = rig.edge(options='zone = "x",')
    edge.wait_for(1)
    servers["x"].stop()
    answers = [edge.get() for _ in range(40)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.server for answer in answers} == {"b"}


def test_its_reports_tell_its_zone(rig: Rig) -> None:
    publish(rig, {"x": rig.backend("a")}, 1, STAY)
    edge = rig.edge(options='zone = "x",')
    edge.wait_for(1)
    rig.wait_until(lambda: rig.memcached.get("steelyard:1:traffic:web:edge-1"), "it reports")
    value = rig.memcached.get("steelyard:1:traffic:web:edge-1")
    assert value is not None
    assert json.loads(value)["zone"] == "x"
