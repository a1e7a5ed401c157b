"""The memory of a worker: it keeps nothing of servers that are gone."""

from typing import TYPE_CHECKING

import pytest

from openresty.tests.nginx_process import one_upstream

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

AT_ONCE = 20

OPTIONS = "fetch_interval_s = 0.05, upstreams = { web = { bootstrap = {} } },"

# Without garbage, and without compiled code, which LuaJIT adds to for many minutes.
HEAP = """
location = /heap { content_by_lua_block {
    require("jit").flush() collectgarbage() collectgarbage() ngx.print(collectgarbage("count")) } } }
"""


def test_addresses_that_are_gone_leave_the_heap_as_it_was(rig: "Rig") -> None:
    there = rig.backend("there")
    edge = rig.edge_of(one_upstream(rig.memcached.port, OPTIONS, HEAP))
    port = rig.dead_address().rpartition(":")[2]

    def churn(edge: "Edge", generations: range) -> float:
        """Serve tables of ever new servers, one of them refusing requests; return the heap in kB."""
        for generation in generations:
            fresh = [f"127.1.{generation}.{n}:{port}" for n in range(1, AT_ONCE + 1)]
            rows = [
                (f"s{generation}-{n}", address, 1, "drain" if n else "up") for n, address in enumerate(fresh)
            ]
            rig.publish([("there", there.address, 1, "up"), *rows], generation=generation)
            edge.wait_for(generation)
            for _ in range(3):
                assert edge.get().server == "there"
        return float(edge.get("/heap").body)

    before = churn(edge, range(1, 11))
    # 600 addresses: 0.2 kB for each would be too much.
    assert churn(edge, range(11, 41)) - before < 120
