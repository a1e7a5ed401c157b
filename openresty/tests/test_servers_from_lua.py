"""Lua in nginx.conf: it reads servers, marks them, and has a picker of its own."""

import http.client
from collections.abc import Callable

import pytest

from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import started as started
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

MARKING = """
  location = /mark {
    content_by_lua_block {
      local var = ngx.var
      local seconds = tonumber(var.arg_s)
      local ok, err = require("steelyard").mark(var.arg_name, var.arg_server, var.arg_how, seconds)
      ngx.say(ok and "ok" or err)
    }
  }
}"""


def marked(edge: Edge, server: str, how: str, *, name: str = "web", seconds: str = "") -> str:
    return edge.get(f"/mark?name={name}&server={server}&how={how}&s={seconds}").body.strip()


def served(rig: Rig, names: str, settings: str = "", *, workers: int = 1) -> Edge:
    made = [rig.backend(name) for name in names]
    rig.publish([(one.name, one.address, 1, "up") for one in made], generation=1)
    options = f"upstreams = {{ web = {{ {settings} }} }},"
    edge = rig.edge(options=options, servers=MARKING, workers=workers)
    edge.wait_for(1)
    return edge


def wait_served_by(rig: Rig, edge: Edge, names: str) -> None:
    rig.wait_until(lambda: set(edge.shares(6 * len(names))) == set(names), f"{names} and no others serve")


def test_a_server_that_is_marked_down_is_out_in_every_worker_until_it_is_up(rig: Rig) -> None:
    edge = served(rig, "abc", workers=3)
    assert marked(edge, "b", "down") == "ok"
    wait_served_by(rig, edge, "ac")
    row = edge.peer("b")
    assert (row["health"], row["health_reason"], row["eligible"], row["weight"]) == (
        "marked", "marked down", False, 1,
    )  # fmt: skip
    edge.reload()
    wait_served_by(rig, edge, "ac")
    assert marked(edge, edge.peer("b")["address"], "up") == "ok"
    wait_served_by(rig, edge, "abc")


def test_it_may_be_down_for_some_seconds_and_again_for_fewer(rig: Rig) -> None:
    edge = served(rig, "ab")
    assert marked(edge, "b", "down", seconds="300") == "ok"
    wait_served_by(rig, edge, "a")  # the worker has seen the later end
    assert marked(edge, "b", "down", seconds="1") == "ok"
    wait_served_by(rig, edge, "ab")


def test_failures_that_lua_tells_of_count_as_tries_without_an_answer(rig: Rig) -> None:
    edge = served(rig, "ab", "max_fails = 2, fail_timeout_s = 60")
    marked(edge, "b", "failed")
    assert edge.peer("b")["health"] == "ok"
    marked(edge, "b", "failed")
    rig.wait_until(lambda: edge.peer("b")["health_reason"] == "2 tries got no answer", "b is out")
    marked(edge, "b", "up")
    wait_served_by(rig, edge, "ab")


def test_who_marks_what_is_not_there_is_told(rig: Rig) -> None:
    edge = served(rig, "a")
    assert marked(edge, "z", "down") == "there is no server z in upstream web"
    assert marked(edge, "a", "down", name="shop") == "there is no server a in upstream shop"
    assert marked(edge, "a", "ill") == "a server is up, down or failed, and not ill"


def post(edge: Edge, path: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read().decode())
    finally:
        connection.close()


def test_the_example_lists_servers_marks_them_and_picks_by_its_own_picker(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("own-picker.conf")
    assert (edge.upstream()["picker"], edge.upstream()["picker_error"]) == ("fastest-of-three", None)
    rows = edge.get("/servers").json()
    assert [row["health"] for row in rows] == ["ok"] * 3
    assert {row["address"] for row in rows} == {row["id"] for row in rows}
    rig.wait_until(lambda: set(edge.shares(9)) == {"a", "b", "c"}, "all serve")
    gone = rows[0]["address"]
    assert post(edge, f"/servers?server={gone}&how=down").body == "marked\n"
    # Each worker applies it by itself.
    rig.wait_until(
        lambda: {one["serving"]["web"]["unhealthy"] for one in edge.status()["workers"]} == {1}, "all know it"
    )
    assert edge.get("/servers").json()[0]["health"] == "marked"
    assert len(edge.shares(12)) <= 2
    assert post(edge, "/servers?server=nobody&how=down").status == 400


def test_a_picker_of_one_s_own_that_cannot_be_made_is_told_and_replaced(rig: Rig) -> None:
    edge = served(rig, "ab", "picker = { name = 'mine', new = function() error('no table', 0) end }")
    assert (edge.upstream()["picker"], edge.upstream()["picker_error"]) == (
        "vnswrr2",
        "picker mine: no table",
    )
    assert set(edge.shares(6)) == {"a", "b"}


# It takes no table of two servers, and picks none of three.
FAULTY = """picker = { name = "mine", new = function()
  return {
    update = function(self, peers) assert(#peers ~= 2, "two servers " .. ngx.now()) self.peers = peers end,
    pick = function(self) return #self.peers == 3 and error("three") or self.peers[1] end,
  }
end }"""


def test_while_a_picker_of_one_s_own_fails_the_default_serves_the_new_table(rig: Rig) -> None:
    servers = [rig.backend(name) for name in "abc"]
    rows = [(one.name, one.address, 1, "up") for one in servers]
    edge = rig.edge(options=f"upstreams = {{ web = {{ {FAULTY} }} }},", workers=2)
    rig.publish(rows[:1], generation=1)
    edge.wait_for(1)
    assert (edge.upstream()["picker"], edge.upstream()["picker_errors"]) == ("mine", 0)
    for generation in (2, 4, 6):
        rig.publish(rows[:2], generation=generation)
        edge.wait_for(generation)
        assert (edge.upstream()["picker"], edge.upstream()["generation"]) == ("vnswrr2", generation)
        assert "picker mine: update: " in edge.upstream()["picker_error"]
        assert set(edge.shares(20)) == {"a", "b"}
        rig.publish(rows, generation=generation + 1)
        edge.wait_for(generation + 1)
        assert edge.upstream()["picker"] == "mine"
        assert set(edge.shares(60)) == {"a", "b", "c"}
        assert "picker mine: pick: " in edge.upstream()["picker_error"]
    assert edge.upstream()["picker_errors"] >= 3 * (edge.workers + 60)
    assert 0 < edge.logged("mine: update: ") < 3  # once a minute, for all workers
    assert 0 < edge.logged("mine: pick: ") < 3
    rig.publish(rows[:1], generation=8)
    edge.wait_for(8)
    assert set(edge.shares(4)) == {"a"}
