"""Counts of many servers: handed in once for each report, and at once after a failure; read from memory."""

import time
from typing import TYPE_CHECKING

import pytest

from testing.daemons import free_port

if TYPE_CHECKING:
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

SERVERS = 520

HTTP = """
  lua_shared_dict steelyard 10m;
  init_by_lua_block {
    require "steelyard"
    local counters, flushes, reads = require "steelyard.io.shared_counters", 0, 0
    local flush, get = counters.flush, counters.get
    function counters.flush(...) flushes = flushes + 1 return flush(...) end
    function counters.get(...) reads = reads + 1 return get(...) end
    function count_flushes() return flushes end
    function count_reads() return reads end
  }
  init_worker_by_lua_block {
    local servers = {}
    for i = 1, @SERVERS@ do
      servers[i] = "127.1." .. math.floor(i / 250) .. "." .. 1 + i % 250 .. ":@TO@"
    end
    require("steelyard").init_worker{
      memcached = {"127.0.0.1:@MEMCACHED@"}, lb = "edge-1", upstreams = { web = { bootstrap = servers } }
    }
  }
  log_by_lua_block { require("steelyard").log() }
  upstream web {
    server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("web") } keepalive 600;
  }
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {
    listen 127.0.0.1:@PORT@;
    location / { proxy_pass http://web; }
    location = /flushes { content_by_lua_block { ngx.print(count_flushes()) } log_by_lua_block { } }
    location = /reads { content_by_lua_block { ngx.print(count_reads()) } log_by_lua_block { } }
    location = /steelyard/status { content_by_lua_block { require("steelyard").status() } }
  }
  server {
    listen @TO@; log_by_lua_block { }
    location / { return 200 "ten bytes."; }
    location = /fails { return 503; }
  }
"""

LOOK_S = 2.5


def a_second(edge: "Edge", count: str, path: str) -> float:
    """Return what is counted a second at `count`, while a request goes to a path now and then."""
    began, before = time.monotonic(), int(edge.get(count).body)
    while time.monotonic() - began < LOOK_S:
        edge.get(path)
        time.sleep(0.05)
    return (int(edge.get(count).body) - before) / (time.monotonic() - began)


def test_counts_of_many_servers_are_handed_in_seldom_and_failures_soon(rig: "Rig") -> None:
    http = HTTP.replace("@SERVERS@", str(SERVERS)).replace("@MEMCACHED@", str(rig.memcached.port))
    edge = rig.edge_of(http.replace("@TO@", str(free_port())))
    for _ in range(SERVERS):
        assert edge.get("/").status == 200
    usually = a_second(edge, "/flushes", "/")
    assert usually < 2.5, "with few servers 5"
    assert a_second(edge, "/flushes", "/fails") > 1.5 * usually
    # Six counters of each server are read again in 20 to 40 s; without copies, they were read each second.
    assert a_second(edge, "/reads", "/") < SERVERS
    rig.wait_until(lambda: sum(peer["picks"] for peer in edge.upstream()["peers"]) > SERVERS, "all counts")
    rig.wait_until(lambda: rig.memcached.get("steelyard:1:traffic:web:edge-1"), "a report")
