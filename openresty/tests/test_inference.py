"""Inference engines: their requests and answers steer picks, in the example and in the module."""

import contextlib
import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openresty.tests.engine import Engine
from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_any_upstream import LIST, listing
from openresty.tests.test_chart_nginx import StatusPort, at_home, rendered
from openresty.tests.test_examples import on_this_machine, whole
from openresty.tests.test_reports import Reports
from testing.daemons import free_port
from testing.nginx_under_test import OPENRESTY
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
SYSTEM = {"role": "system", "content": "You are helpful. " * 400}


@contextlib.contextmanager
def asked(edge: Edge, body: Any, path: str = CHAT, key: str = "") -> Iterator[http.client.HTTPResponse]:
    """Send a request, and return its answer as soon as it begins."""
    connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, data, {"X-Session-Id": key} if key else {})
        yield connection.getresponse()
    finally:
        connection.close()


def chat(*turns: Any, **more: Any) -> dict[str, Any]:
    """Return a conversation's request: the user's first words, the answer, the user's next words ..."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)]
    return {"model": "llama", "messages": [SYSTEM, *messages], **more}


def ask(edge: Edge, body: Any, path: str = CHAT, key: str = "") -> tuple[int, str]:
    """Ask, and return the status and the engine that answered."""
    with asked(edge, body, path, key) as response:
        response.read()
        return response.status, response.headers.get("X-Backend", "")


@pytest.fixture
def example(rig: Rig, engines: list[Engine], tmp_path: Path) -> Iterator[Edge]:
    """Return the unchanged example with these engines behind it."""
    (tmp_path / "nginx").mkdir()
    addresses = [engine.address for engine in engines]
    text = on_this_machine(whole("inference.conf"), addresses, rig.memcached.port, 1)
    edge = Edge(tmp_path / "nginx", text, 1)
    yield edge
    edge.stop()


def test_the_example_starts_without_a_warning_and_streams_each_token(
    example: Edge, engines: list[Engine]
) -> None:
    assert example.test_config() == ""
    for engine in engines:
        engine.going.clear()
    with asked(example, chat("Hello", stream=True)) as response:
        assert response.readline().startswith(b"data: ")  # the engine has sent nothing else
        assert [engine.inside for engine in engines].count(1) == 1
        for engine in engines:
            engine.going.set()
        assert response.read().endswith(b"data: [DONE]\n\n")
    assert ask(example, {"model": "llama", "prompt": "Once"}, "/v1/completions")[0] == 200
    assert example.complaints() == []


def test_a_conversation_stays_with_its_engine(example: Edge) -> None:
    homes = {}
    for number in range(12):
        first = f"Question {number}"
        turns = [
            chat(first),
            chat(first, "Answer", "And then?"),
            chat([{"type": "text", "text": first}], "Answer", "And then?", "So", "Why?"),
        ]
        (homes[number],) = {ask(example, turn) for turn in turns}
    assert {status for status, _ in homes.values()} == {200}
    assert {name for _, name in homes.values()} == {"a", "b", "c"}


def test_what_begins_alike_has_one_engine(example: Edge) -> None:
    for number in range(6):
        prompts = [f"File {number}\n" + "x = 1\n" * 1000 + end for end in ("y", "z", "w")]
        assert len({ask(example, {"prompt": prompt}, "/v1/completions") for prompt in prompts}) == 1


def test_a_session_of_the_client_s_own_goes_before_the_prompt(example: Edge) -> None:
    for session in "12345":
        assert len({ask(example, chat(f"Question {n}"), key=session) for n in range(6)}) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_a_conversation_stays_when_engines_come(rig: Rig, engines: list[Engine], workers: int) -> None:
    rows = [(f"e{n}", engine.address, 1, "up") for n, engine in enumerate(engines)]
    rig.publish(rows[:1], generation=1, picker="bounded_hash")
    key = 'hash_key = "header:X-Session-Id", hash_balance_factor = 1000'
    edge = rig.edge(
        workers=workers,
        options=f'upstreams = {{ web = {{ {key}, remember_keys = "keys" }} }},',
        servers="location /v1/ { proxy_pass http://web; } } lua_shared_dict keys 1m;",
    )
    edge.wait_for(1)
    for number in range(12):
        assert ask(edge, chat("Hello"), key=str(number))[1] == "a"
    rig.publish(rows, generation=2, picker="bounded_hash")
    edge.wait_for(2)
    assert {ask(edge, chat("Hello"), key=str(number))[1] for number in range(12)} == {"a"}
    assert {ask(edge, chat("Hello"), key=str(number))[1] for number in range(12, 36)} == {"a", "b", "c"}
    # The counts fall again when the requests end.
    rig.publish([*rows[:1], rows[2]], generation=3, picker="bounded_hash")
    edge.wait_for(3)
    assert {ask(edge, chat("Hello"), key=str(number))[1] for number in range(36)} == {"a", "c"}
    assert {ask(edge, chat("Hello"), key=str(number))[1] for number in range(12)} == {"a"}


def test_a_memory_that_is_not_there_is_told(rig: Rig) -> None:
    edge = rig.edge(options='upstreams = { web = { picker = "bounded_hash", remember_keys = "keys" } },')
    problem = "remember_keys: there is no such dict; add `lua_shared_dict keys 10m;` to http {}"
    rig.publish([("a", rig.backend("a").address, 1, "up")], generation=1)
    edge.wait_for(1)
    assert (edge.upstream()["picker"], problem in edge.upstream()["picker_error"]) == ("vnswrr2", True)
    assert edge.logged(problem) >= 1


LOCATION = """
  location /v1/ {
    client_body_buffer_size 16k; access_by_lua_block { ngx.req.read_body() }
    proxy_pass http://web; proxy_buffering off;
    body_filter_by_lua_block { require("steelyard.inference").answer() }
  }
}"""


def edge_with(rig: Rig, engines: list[Engine], settings: str) -> Edge:
    rows = [(f"e{n}", engine.address, 1, "up") for n, engine in enumerate(engines)]
    rig.publish(rows, generation=1, picker="bounded_hash")
    of_inference = (
        f'(function() local inference = require "steelyard.inference" return {{ {settings} }} end)()'
    )
    edge = rig.edge(
        options=f"report_interval_s = 2, upstreams = {{ web = {of_inference} }},", servers=LOCATION
    )
    edge.wait_for(1)
    return edge


@pytest.mark.parametrize("kilobytes", [4, 100, 600])
def test_a_body_of_any_size_arrives_whole(rig: Rig, engines: list[Engine], kilobytes: int) -> None:
    edge = edge_with(rig, engines, "hash_key = inference.prefix, cost = inference.cost")
    body = json.dumps(chat("Question", "y" * 1024 * kilobytes, "And then?")).encode()
    answers = [ask(edge, body) for _ in range(6)]
    # A body above 512 kB is not read. It has no key, and its length counts.
    assert (len({name for _, name in answers}) == 1) == (kilobytes < 512)
    assert {status for status, _ in answers} == {200}
    assert [sent for engine in engines for sent in engine.bodies] == [body] * 6
    cost = edge.upstream()["cost"]
    # The 300 tokens that an answer is assumed to have, until the first usage.
    assert (cost["malformed"], round(cost["mean"], 3)) == (0, len(body) / 4 + 4 * 300)


@pytest.mark.parametrize("body", [b'{"messages": [', b"[1]", b"", b"\x00\xff" * 99])
def test_what_is_no_request_passes_untouched_and_counts_as_a_usual_one(
    rig: Rig, engines: list[Engine], body: bytes
) -> None:
    settings = "hash_key = inference.prefix, cost = inference.cost, cost_at_end = inference.used"
    edge = edge_with(rig, engines, settings)
    assert ask(edge, body)[0] == 400
    assert [sent for engine in engines for sent in engine.bodies] == [body]
    assert edge.upstream()["cost"]["malformed"] == 1
    assert edge.logged("hash_key fails") == 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("pieces", [0, 1])
def test_the_report_has_what_answers_say_that_they_took(
    rig: Rig, engines: list[Engine], stream: bool, pieces: int
) -> None:
    edge = edge_with(rig, engines, "cost_at_end = inference.used")
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["peers"], "a report with peers")
    for engine in engines:
        engine.pieces = pieces
        engine.usage = {
            "prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}
        }  # fmt: skip
    for _ in range(3):
        assert ask(edge, chat("Hello", stream=stream))[0] == 200
    took = 100 - 60 + 4 * 7
    rig.wait_until(lambda: sum(reports.total(f"e{n}", "cost") for n in range(3)) == 3 * took, "what it took")
    assert edge.upstream()["cost"]["malformed"] == 0


def test_the_report_has_what_vllm_says_of_its_queue_and_cache(rig: Rig, engines: list[Engine]) -> None:
    edge = edge_with(rig, engines, 'cost_at_end = inference.used, load_metrics_format = "TEXT"')

    def reported() -> list[Any]:
        assert ask(edge, chat("Hello"))[0] == 200
        return [peer["load"] for peer in rig.report()["peers"].values() if "load" in peer]

    rig.wait_until(reported, "a report has its load")
    assert reported()[0]["named_metrics"] == {"kv_cache_usage_perc": 0.25, "num_requests_waiting": 3}
    assert edge.status()["load_reports_malformed"] == 0


def test_a_stream_s_latency_is_the_time_to_its_first_event(rig: Rig, engines: list[Engine]) -> None:
    edge = edge_with(rig, engines, "")
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["peers"], "a report with peers")
    for engine in engines:
        engine.thinks_s = 0.3
        engine.going.clear()
    began_s = time.monotonic()
    with asked(edge, chat("Hello", stream=True)) as response:
        header_s = time.monotonic() - began_s
        response.readline()
        event_s = time.monotonic() - began_s
        time.sleep(0.5)
        for engine in engines:
            engine.going.set()
        response.read()
    rig.wait_until(lambda: sum(reports.total(f"e{n}", "completed") for n in range(3)) == 1, "its report")
    peers = [peer for report in reports.by_seq.values() for peer in report["peers"].values()]
    (latency_ms,) = [peer["latency_ms"] for peer in peers if peer["completed"]]
    # nginx counts whole milliseconds, and reads the clock once a turn.
    assert 1000 * engines[0].thinks_s - 20 <= latency_ms <= 1000 * event_s + 20, (header_s, event_s)


def test_what_an_engine_says_of_its_load_counts_while_its_stream_lasts(
    rig: Rig, engines: list[Engine]
) -> None:
    edge = edge_with(rig, engines[:2], 'picker = "vnswrr2"')
    for engine in engines:
        engine.thinks_s = 0.1  # a reported figure counts for about 24 times as long
    for _ in range(4):
        ask(edge, chat("Hello", stream=True))
    for engine, in_flight in zip(engines, ("50", "1", "1"), strict=True):
        engine.headers["X-Steelyard-In-Flight"] = in_flight
        engine.going.clear()
    time.sleep(0.2)  # nginx looks for the header each 0.1 s until it finds one
    with contextlib.ExitStack() as streams:  # none of them ends
        opened = [streams.enter_context(asked(edge, chat("Hello", stream=True))) for _ in range(12)]
        assert [response.headers["X-Backend"] for response in opened].count("a") <= 3


def test_without_a_usage_events_are_counted(rig: Rig, engines: list[Engine]) -> None:
    edge = edge_with(rig, engines, "cost_at_end = inference.used")
    reports = Reports(rig)
    rig.wait_until(lambda: reports.read()["peers"], "a report with peers")
    for engine in engines:
        engine.usage, engine.tokens = None, 9
    body = json.dumps(chat("Hello", stream=True)).encode()
    assert ask(edge, body)[0] == 200
    took = len(body) / 4 + 4 * 9
    rig.wait_until(lambda: sum(reports.total(f"e{n}", "cost") for n in range(3)) == took, "its tokens")


def test_a_request_is_taken_for_as_long_as_its_model_s_answers_were(rig: Rig, engines: list[Engine]) -> None:
    for engine in engines:
        engine.usage = {"prompt_tokens": 1, "completion_tokens": 50}
    edge = edge_with(rig, engines, "cost = inference.cost, cost_at_end = inference.used")
    estimates: list[float] = []
    total = 0.0
    for more in ({}, {}, {"max_tokens": 10}, {"max_completion_tokens": 4000}):
        body = json.dumps({"model": "m", "prompt": "x", **more}).encode()
        assert ask(edge, body, "/v1/completions")[0] == 200
        before, total = total, edge.upstream()["cost"]["mean"] * (len(estimates) + 1)
        estimates.append(round(total - before - len(body) / 4, 3))
    assert estimates == [4 * 300, 4 * 50, 4 * 10, 4 * 50]


def test_the_charts_values_do_the_same(
    rig: Rig, engines: list[Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (OPENRESTY.parent / "docs/guides/inference.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(dataplane:.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("STEELYARD_MEMCACHED", f"127.0.0.1:{rig.memcached.port}")
    monkeypatch.setenv("STEELYARD_LB", "edge-1")
    rows = [(f"e{n}", engine.address, 1, "up") for n, engine in enumerate(engines)]
    rig.publish(rows, generation=1, upstream="llama")
    rig.memcached.set(LIST, listing("llama", generation=1))
    status_port = free_port()
    edge = Edge(tmp_path / "chart", at_home(rendered(yaml.safe_load(block)), status_port), workers=2)
    status = StatusPort(edge, status_port)
    try:
        rig.wait_until(lambda: status.served() == [{"llama"}] * 2, "both workers serve it")
        turns = [("Hello",), ("Hello", "Hi.", "How are you?")]
        assert len({ask(edge, chat(*turn, stream=True)) for turn in turns * 3}) == 1
        llama = status.get("/steelyard/status").json()["upstreams"]["llama"]
        assert (llama["picker"], llama["cost"]["malformed"]) == ("bounded_hash", 0)
    finally:
        edge.stop()
