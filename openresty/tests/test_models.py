"""Models by name: the body's `model` chooses the upstream, in the example and in its errors."""

import http.client
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openresty.tests.engine import Engine
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_any_upstream import LIST, listing, wait_served
from openresty.tests.test_examples import on_this_machine, whole
from openresty.tests.test_inference import CHAT, ask, asked, chat
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration


@pytest.fixture
def edge(rig: Rig, engines: list[Engine], tmp_path: Path) -> Iterator[Edge]:
    """Return the example: a and b have one model, c has another."""
    rig.memcached.set(LIST, listing("llama", "mistral-7b", generation=1))
    a, b, c = ((engine.address, 1, "up") for engine in engines)
    rig.publish([("a", *a), ("b", *b)], generation=1, upstream="llama", picker="bounded_hash")
    rig.publish([("c", *c)], generation=1, upstream="mistral-7b", picker="bounded_hash")
    edge = started(rig, tmp_path)
    for name in ("llama", "mistral-7b"):
        wait_served(rig, edge, name)
    yield edge
    edge.stop()


def started(rig: Rig, folder: Path) -> Edge:
    """Start the example."""
    (folder / "nginx").mkdir()
    return Edge(
        folder / "nginx", on_this_machine(whole("inference-models.conf"), [], rig.memcached.port, 1), 1
    )


def refusal(edge: Edge, body: bytes | None, method: str = "POST") -> tuple[int, Any]:
    """Send a request that is refused; return the status, and the error in OpenAI's shape."""
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    try:
        connection.request(method, CHAT, body)
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "application/json"
        (error,) = json.loads(response.read()).values()
    finally:
        connection.close()
    assert (error["type"], error["param"]) == ("invalid_request_error", "model")
    return response.status, error


def test_the_example_sends_each_model_to_its_engines(edge: Edge, engines: list[Engine]) -> None:
    assert edge.test_config() == ""
    base = {ask(edge, chat(f"Question {n}", model="meta-llama/Llama-3.1-8B-Instruct")) for n in range(12)}
    assert base == {(200, "a"), (200, "b")}
    # An adapter is a model with a name of its own on the same engines.
    for adapter in ("sql-lora", "meta-llama/Llama-3.1-8B-Instruct:sql"):
        assert {ask(edge, chat(f"Question {n}", model=adapter)) for n in range(12)} == base
        assert len({ask(edge, chat("Question", "Answer", "Next?", model=adapter)) for _ in range(3)}) == 1
    assert {ask(edge, chat(f"Question {n}", model="mistral-7b")) for n in range(6)} == {(200, "c")}
    assert {json.loads(body)["model"] for body in engines[2].bodies} == {"mistral-7b"}
    with asked(edge, chat("Hello", model="mistral-7b", stream=True)) as response:
        assert response.read().endswith(b"data: [DONE]\n\n")
    models = json.loads(edge.get("/v1/models").body)["data"]
    assert "sql-lora" in {model["id"] for model in models}
    assert edge.complaints() == []


def test_a_model_that_is_declared_later_is_served_without_a_reload(
    rig: Rig, edge: Edge, engines: list[Engine]
) -> None:
    assert ask(edge, chat("Hello", model="later"))[0] == 404
    rig.publish([("c", engines[2].address, 1, "up")], generation=1, upstream="later")
    rig.memcached.set(LIST, listing("later", "llama", "mistral-7b", generation=2))
    wait_served(rig, edge, "later")
    assert ask(edge, chat("Hello", model="later")) == (200, "c")


UNKNOWN = {
    "gpt-9": "gpt-9",
    "org/model:7b@main": "org/model:7b@main",
    "": "",
    "../llama": "../llama",
    "llama\r\nX-Y: z": "llama??X-Y:?z",
    "llama\x00": "llama?",
    'Lläma`<b>"': "Ll??ma??b??",
    "m" * 5000: "m" * 128,
    "$upstream": "?upstream",
    "steelyard_failure": "steelyard_failure",
}


def test_an_unknown_model_is_a_404_that_says_so(edge: Edge, engines: list[Engine]) -> None:
    for number, (model, shown) in enumerate(UNKNOWN.items(), start=1):
        status, error = refusal(edge, json.dumps({"model": model, "prompt": "x"}).encode())
        assert (status, error["code"]) == (404, "model_not_found"), model
        assert error["message"] == f"the model `{shown}` does not exist, or is not served here"
        assert edge.status()["unknown_upstreams"] == number
    assert [engine.bodies for engine in engines] == [[], [], []]


WITHOUT = (
    None, b"", b"model=llama", b"[1]", b'"x"', b"null", b"{}", b'{"model": 7}', b'{"model": null',
    b"\xff\x00",
)  # fmt: skip


def test_a_body_without_a_model_is_a_400_that_says_so(edge: Edge, engines: list[Engine]) -> None:
    for body in WITHOUT:
        status, error = refusal(edge, body)
        assert (status, error["code"]) == (400, "model_missing"), body
        assert error["message"] == "the body has to be a JSON object with `model`, a text"
    assert [engine.bodies for engine in engines] == [[], [], []]


def test_a_get_has_no_body_and_so_no_model(edge: Edge) -> None:
    assert refusal(edge, None, "GET")[0] == 400


def test_a_body_that_is_larger_than_the_buffer_goes_where_it_should_and_arrives_whole(
    edge: Edge, engines: list[Engine]
) -> None:
    for kilobytes, indent in itertools.product((4, 600, 6000), (None, 1)):
        # Some clients write the model after the messages.
        turns = chat("Look at this", "y" * 1024 * kilobytes, "And then?", model="mistral-7b")
        body = json.dumps({"messages": turns["messages"], "model": turns["model"]}, indent=indent).encode()
        assert ask(edge, body) == (200, "c")
        assert engines[2].bodies == [body]
        engines[2].bodies.clear()


def test_what_has_another_model_within_goes_by_its_own(edge: Edge) -> None:
    within = {"metadata": {"model": "sql-lora"}, "messages": [{"role": "user", "content": '"model": "x"'}]}
    assert ask(edge, {**within, "model": "mistral-7b"}) == (200, "c")


def test_before_the_list_is_known_clients_are_told_to_come_again(rig: Rig, tmp_path: Path) -> None:
    edge = started(rig, tmp_path)
    try:
        status, error = refusal(edge, b'{"model": "mistral-7b"}')
        assert (status, error["code"]) == (503, "models_unknown")
        assert edge.status()["unknown_upstreams"] == 0
    finally:
        edge.stop()


def test_without_any_upstream_models_are_those_of_nginx_conf(rig: Rig, engines: list[Engine]) -> None:
    location = """location /v1/ {
        set $model "";
        access_by_lua_block { require("steelyard.inference").by_model("model", "upstream") }
        proxy_pass http://web;
      }
    }
    map $model $upstream { default ""; "org/small" web; }"""
    rig.publish([("a", engines[0].address, 1, "up")], generation=1)
    edge = rig.edge(servers=location)
    edge.wait_for(1)
    assert ask(edge, chat("Hello", model="org/small")) == (200, "a")
    assert refusal(edge, b'{"model": "org/large"}')[0] == 404


def catch_all(rig: Rig, engines: list[Engine], before: str = "") -> Edge:
    """Return an nginx that accepts every model and returns it in a header; `before` runs first."""
    location = f"""location /v1/ {{
        set $model "";
        access_by_lua_block {{ {before} require("steelyard.inference").by_model("model", "upstream") }}
        add_header X-Model $model;
        proxy_pass http://web;
      }}
    }}
    map $model $upstream {{ default web; }}"""
    rig.publish([("a", engines[0].address, 1, "up")], generation=1)
    edge = rig.edge(servers=location)
    edge.wait_for(1)
    return edge


def test_a_models_name_never_ends_a_line_of_a_header(rig: Rig, engines: list[Engine]) -> None:
    edge = catch_all(rig, engines)
    evil = ("llama\r\nX-Evil: 1", "llama\nx", "m" * 257, "llama\x00")
    for asked_for, said in (("org/small", "org/small"), *((model, None) for model in evil)):
        with asked(edge, chat("Hello", model=asked_for)) as response:
            assert response.status == 200
            assert response.headers["X-Model"] == said
            assert "X-Evil" not in response.headers


def test_a_large_body_has_its_model_though_its_cost_was_asked_for_before(
    rig: Rig, engines: list[Engine]
) -> None:
    edge = catch_all(rig, engines, 'ngx.req.read_body() require("steelyard.inference").cost()')
    assert ask(edge, chat("x" * 600_000, model="org/small")) == (200, "a")
