"""The memory that the workers share: a cell for each server, no more than needed, and a message when full."""

import socket
from pathlib import Path

import pytest

from openresty.tests.nginx_process import one_upstream
from openresty.tests.rig import Rig
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

MANY = 66_000  # a few more than the cells
LIST = """
  (function()
    local servers = {{ {{ id = "first", address = "{first}", weight = 1000000 }} }}
    for n = 2, {many} do
      servers[n] = {{ id = string.format("silent-%05d", n), address = "127." .. 1 + math.floor(n / 62500)
                     .. "." .. math.floor(n / 250) % 250 .. "." .. 1 + n % 250 .. ":9" }}
    end
    return servers
  end)()
"""


def test_no_server_is_booked_for_another_and_a_full_memory_says_so(rig: Rig) -> None:
    first = rig.backend("first")
    servers = LIST.format(first=first.address, many=MANY)
    http = one_upstream(rig.memcached.port, f"upstreams = {{ web = {{ bootstrap = {servers} }} }},", "}")
    edge = rig.edge_of(http.replace("lua_shared_dict steelyard 10m", "lua_shared_dict steelyard 128m"))
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as client:
        client.sendall(b"GET /?body_s=300 HTTP/1.1\r\nHost: x\r\n\r\n")
        rig.wait_until(lambda: first.received, "a request is at the first server")
        status = edge.status()  # 10 MB, so only once
    peers = status["upstreams"]["web"]["peers"]
    assert len(peers) == MANY
    assert [peer["id"] for peer in peers if peer["in_flight"] == 1] == ["first"]
    without = sum(peer["in_flight"] is None for peer in peers)
    assert status["cells_in_use"] == status["cells"] == MANY - without < MANY
    assert status["upstreams"]["web"]["without_cell"] == without
    assert edge.logged(f"and {without} servers have none") == 1


def test_few_servers_take_little_memory(rig: Rig) -> None:
    a = rig.backend("a")
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = rig.edge(workers=2)
    edge.wait_for(1)
    assert edge.shares(3) == {"a": 3}
    for pid in edge.worker_pids():
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        shared_kb = int(next(line.split()[1] for line in status if line.startswith("RssShmem:")))
        assert shared_kb < 1024  # of mappings of 18 MB in all
