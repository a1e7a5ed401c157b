"""Requests that find all servers full: urgent ones go first, some are refused, and a client may leave."""

import http.client
import json
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from openresty.tests.engine import Engine
from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from openresty.tests.test_inference import ask, chat
from openresty.tests.test_max_conns import LOCATIONS, clients, edge_before, gates, hold
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

__all__ = ["clients"]  # a fixture

URGENT = 'max_conns = 1, priority = "http_x_priority", full_status = 429'


def queued_of(
    rig: Rig, clients: ThreadPoolExecutor, edge: Edge, priority: str, path: str = "/limited"
) -> Future[Answer]:
    before = edge.upstream()["queued"]
    answer = clients.submit(edge.get, path, {"X-Priority": priority} if priority else {})
    rig.wait_until(lambda: edge.upstream()["queued"] == before + 1, "it waits")
    return answer


def test_the_urgent_go_first_and_of_one_class_who_came_first(rig: Rig, clients: ThreadPoolExecutor) -> None:
    a = rig.backend("a")
    gate = a.holds["/limited"] = threading.Event()
    rig.publish([("a", a.address, 1, "up")], generation=1)
    queue = f"queue = {{ size = 20, timeout_s = {PATIENCE_S} }}"
    edge = rig.edge(options=f"upstreams = {{ web = {{ {URGENT}, {queue} }} }},", servers=LOCATIONS)
    edge.wait_for(1)
    first = clients.submit(edge.get, "/limited?first")
    rig.wait_until(lambda: len(a.received) == 1, "the server is full")
    asked = ["7", "7", "0", "", "3", "1", "0", "-4", "much", "nan", "0b0", "-inf"]  # the first looks for room
    waiting = [
        queued_of(rig, clients, edge, priority, f"/limited?{number}") for number, priority in enumerate(asked)
    ]
    gate.set()
    assert {answer.result().status for answer in (first, *waiting)} == {200}
    order = [path.partition("?")[2] for path, _, _ in a.received]
    assert order == ["first", "0", "2", "6", "7", "5", "3", "4", "8", "9", "10", "11", "1"]


def test_the_less_urgent_get_less_of_the_queue(rig: Rig, clients: ThreadPoolExecutor) -> None:
    with gates(1) as servers:
        edge = edge_before(rig, servers, f"{URGENT}, queue = {{ size = 8, timeout_s = {PATIENCE_S} }}")
        held = hold(rig, clients, edge, servers, 1, "/limited")
        waiting = [queued_of(rig, clients, edge, "7")]
        assert edge.get("/limited", {"X-Priority": "7"}).status == 429
        waiting += [queued_of(rig, clients, edge, "") for _ in range(4)]
        assert edge.get("/limited").status == 429
        waiting += [queued_of(rig, clients, edge, "0") for _ in range(3)]
        refused = [edge.get("/limited", {"X-Priority": text}).status for text in ("0", "nan", "-nan")]
        assert refused == [429] * 3
        servers[0].opened.set()
        assert {answer.result().status for answer in (*held, *waiting)} == {200}


@pytest.mark.parametrize("path", ["/plain", "/limited"])
def test_who_is_refused_is_told_when_to_come_again(rig: Rig, clients: ThreadPoolExecutor, path: str) -> None:
    with gates(1) as servers:
        edge = edge_before(rig, servers, f"{URGENT}, queue = {{ size = 8, timeout_s = 0.3 }}")
        hold(rig, clients, edge, servers, 1)
        answer = edge.get(path)
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert (answer.json()["title"], edge.upstream()["full"]) == ("Too Many Requests", 1)


LOCATION = """
    lua_check_client_abort on;
    location /v1/ {
      access_by_lua_block { require("steelyard").limit("web") }
      body_filter_by_lua_block { require("steelyard.inference").answer() }
      proxy_pass http://web; proxy_buffering off;
    } }"""


@pytest.mark.parametrize("begun", [True, False], ids=["between two tokens", "before the first"])
def test_a_client_that_leaves_frees_its_place_at_the_engine_at_once(
    rig: Rig, clients: ThreadPoolExecutor, engines: list[Engine], begun: bool
) -> None:
    engine = engines[0]
    rig.publish([("e", engine.address, 1, "up")], generation=1)
    queue = f"queue = {{ size = 2, timeout_s = {PATIENCE_S} }}"
    cost = 'cost = require("steelyard.inference").cost'
    options = f"upstreams = {{ web = {{ max_conns = 1, {queue}, {cost} }} }},"
    edge = rig.edge(options=options, servers=LOCATION)
    edge.wait_for(1)
    engine.going.clear()
    engine.begins_late = not begun
    body = json.dumps(chat("Hello", stream=True)).encode()
    client = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    client.request("POST", "/v1/chat/completions", body)
    rig.wait_until(lambda: len(engine.bodies) == 1, "the engine has it")
    if begun:
        assert client.getresponse().readline().startswith(b"data: ")
    assert (edge.peer("e")["in_flight"], engine.inside) == (1, 1)
    waiting = clients.submit(ask, edge, chat("Hello"))
    rig.wait_until(lambda: edge.upstream()["queued"] == 1, "the next one waits")
    assert client.sock is not None
    client.sock.shutdown(socket.SHUT_RDWR)
    client.close()
    rig.wait_until(lambda: engine.left == 1, "the engine sees that the client is gone")
    rig.wait_until(lambda: len(engine.bodies) == 2, "the next one is there")
    assert engine.inside == 1
    engine.going.set()
    assert waiting.result()[0] == 200
    rig.wait_until(lambda: edge.peer("e")["in_flight"] == 0, "nothing is in flight")
    assert (edge.peer("e")["cost_in_flight"], edge.peer("e")["failed"]) == (0, 0)
