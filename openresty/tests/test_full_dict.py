"""A shared dict that is too small: what does not fit is refused, and everything else goes on."""

import time

import pytest

from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

LOCATIONS = """
    location = /mark {
      content_by_lua_block { ngx.say(require("steelyard").mark("web", ngx.var.arg_server, ngx.var.arg_how)) }
    }
    location = /count {
      content_by_lua_block {
        local n = 0
        for _, key in ipairs(ngx.shared.steelyard:get_keys(0)) do
          n = n + (string.find(key, ngx.var.arg_of, 1, true) == 1 and 1 or 0)
        end
        ngx.say(n)
      }
    }
    # Fill the dict up, with its reserve or without: first by large values, then by small ones.
    location = /fill {
      content_by_lua_block {
        local shared_dict = require "steelyard.io.shared_dict"
        local dict, number = shared_dict.open("steelyard"), 0
        dict = ngx.var.arg_reserve and dict or dict.bulk
        for _, bytes in ipairs({ 1000, 400, 180, 60, 10, 1 }) do
          repeat
            number = number + 1
            local ok = dict:add(ngx.now() .. "/" .. number, string.rep("x", bytes))
          until not ok
        end
      }
    } }
"""


def small_edge(rig: Rig, size: str) -> Edge:
    http = one_upstream(rig.memcached.port, "upstreams = { web = {}, big = {} },", LOCATIONS)
    http = http.replace("lua_shared_dict steelyard 10m", f"lua_shared_dict steelyard {size}")
    http = http.replace("report_interval_s = 0.3", "report_interval_s = 60")
    return rig.edge_of(http, workers=2)


def publish_big(rig: Rig, servers: int, generation: int, first: int = 0) -> None:
    numbers = range(first, first + servers)
    peers = [(f"silent-{n:04}", f"127.1.{n // 250}.{n % 250}:9", 1, "up") for n in numbers]
    rig.publish(peers, generation=generation, upstream="big")


def test_a_table_that_does_not_fit_is_refused_and_freezes_no_other_upstream(rig: Rig) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    edge = small_edge(rig, "256k")

    def publish_web(generation: int) -> None:
        rig.publish([("a", a.address, generation, "up"), ("b", b.address, 1, "up")], generation=generation)

    publish_web(1)
    publish_big(rig, 50, 1)
    edge.wait_for(1)
    edge.wait_for(1, upstream="big")
    assert edge.get("/mark?server=b&how=down").body == "true\n"
    for generation in range(2, 22):
        publish_big(rig, 2500, generation)
        publish_web(generation)
        time.sleep(0.2)
        assert edge.shares(10) == {"a": 10}
    edge.wait_for(21)
    assert edge.peer("b")["health_reason"] == "marked down"
    # The last table that fitted holds, and shows its age.
    big = edge.upstream("big")
    assert (big["rung"], big["generation"], len(big["peers"])) == ("hold", 1, 50)
    assert big["refused"]["no_room"] > 10
    assert big["last_refused"].startswith("no_room: it takes ")
    assert edge.logged("upstream big: the weight table") == 1
    assert edge.logged("free: raise `lua_shared_dict steelyard` (now 256k) in http {}") == 1
    # Its servers that leave before a report leave nothing behind.
    for generation in range(22, 30):
        publish_big(rig, 60, generation, first=generation * 100)
        edge.wait_for(generation, upstream="big")
    kept = edge.get("/count?of=picks/127.1.").body
    assert int(kept) <= 120


def test_marks_locks_and_weights_find_room_in_a_full_dict(rig: Rig) -> None:
    servers = {name: rig.backend(name) for name in ("a", "b", "c", "d")}
    edge = small_edge(rig, "256k")

    def publish_web(generation: int) -> None:
        peers = [(name, server.address, generation, "up") for name, server in servers.items()]
        rig.publish(peers, generation=generation)

    publish_web(9)
    edge.wait_for(9)
    assert edge.get("/fill").status == 200
    publish_web(10)  # with more digits
    assert edge.get("/mark?server=b&how=down").body == "true\n"
    edge.wait_for(10)
    rig.wait_until(lambda: "b" not in edge.shares(6), "the marked server gets no requests")
    refused = edge.status()["dict_refused"]
    assert edge.get("/fill?reserve=1").status == 200
    refusal = edge.get("/mark?server=c&how=down").body
    assert refusal.startswith("nilthe shared dict has no room for the mark: raise `lua_shared_dict")
    publish_web(1000)
    edge.wait_for(1000)
    assert edge.shares(6).keys() == {"a", "c", "d"}
    assert edge.status()["dict_refused"] > refused > 0
    assert 1 <= edge.logged("the shared dict is full") <= edge.workers
