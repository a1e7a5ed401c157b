"""A pinned share on a real nginx: it is kept, although its server is idle at every pick."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import UNSET
from steelyard_protocol import weight_table
from steelyard_protocol.weight_table import TablePeer, WeightTable

from openresty.tests.backend import Backend
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

REQUESTS = 200


def publish(rig: Rig, servers: list[Backend], generation: int, *, pinned: bool) -> None:
    """Write a table with a share of 2 % for its last server."""
    table = WeightTable(
        upstream="web", term=1, generation=generation, issued_at_ms=time.time_ns() // 1_000_000,
        law="steelyard", picker="vnswrr2",
        peers=tuple(
            TablePeer(
                id=one.name, address=one.address, weight=weight, baseline=weight, state="up",
                pinned=True if pinned and weight == 20 else UNSET,
            )
            for one, weight in zip(servers, (490, 490, 20), strict=True)
        ),
    )  # fmt: skip
    rig.memcached.set("steelyard:1:weights:web", weight_table.encode(table))


def test_a_canary_gets_what_it_is_pinned_to_while_the_others_are_busy(rig: Rig) -> None:
    servers = [rig.backend("a"), rig.backend("b"), rig.backend("canary")]
    going = threading.Event()
    for busy in servers[:2]:
        busy.holds["/held"] = going
    publish(rig, servers, 1, pinned=True)
    edge = rig.edge()
    edge.wait_for(1)
    with ThreadPoolExecutor(8) as clients:
        held = [clients.submit(edge.get, "/held") for _ in range(8)]
        try:
            rig.wait_until(lambda: min(edge.peer(name)["in_flight"] for name in "ab") > 1, "both are busy")
            assert [edge.get().server for _ in range(REQUESTS)].count("canary") == pytest.approx(4, abs=1)
            publish(rig, servers, 2, pinned=False)
            edge.wait_for(2)
            assert [edge.get().server for _ in range(REQUESTS)].count("canary") > REQUESTS / 2
        finally:
            going.set()
        assert {each.result().status for each in held} == {200}
