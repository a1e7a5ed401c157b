"""A real measurement of a few seconds, before engine processes: all figures exist, but are not judged."""

import http.client
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from steelyard_loadtest.__main__ import main
from steelyard_loadtest.inference import session
from steelyard_loadtest.inference.contenders import BY_NAME, SIZES, scenario
from steelyard_loadtest.inference.figures import figures
from steelyard_loadtest.machine import find_programs
from steelyard_loadtest.machine.child_process import Process
from steelyard_loadtest.machine.network import free_ports
from steelyard_loadtest.rig import balancers

pytestmark = pytest.mark.integration

MODULE = "steelyard_loadtest.inference.engine_server"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Return the port of an engine at a thousand times its speed."""
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("engine") / "log"
    process = Process([sys.executable, "-m", MODULE, str(port), "1", "1000"], log)
    process.wait_listening(port)
    yield port
    process.stop()


def ask(port: int, method: str, path: str, document: object = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, None if document is None else json.dumps(document))
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def asked(tokens: int, output: int) -> dict[str, Any]:
    return {"prompt": "abcd" * tokens, "seed": output, "stream": True}


def test_an_engine_streams_tells_the_usage_and_remembers_the_prompt(port: int) -> None:
    for cached in (0, 1024):
        status, text = ask(port, "POST", "/v1/completions", asked(1025, 20))
        events = text.removesuffix("\n\n").split("\n\n")
        assert (status, events[-1], len(events)) == (200, "data: [DONE]", 3 + 2)
        usage = json.loads(events[-2].removeprefix("data: "))["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (1025, 20)
        assert usage["prompt_tokens_details"] == {"cached_tokens": cached}
    _, metrics = ask(port, "GET", "/metrics")
    assert 'vllm:prefix_cache_hits_total{model_name="lab"} 1024\n' in metrics
    assert 'vllm:num_requests_running{model_name="lab"} 0\n' in metrics


def test_a_client_that_leaves_frees_its_place(port: int) -> None:
    assert ask(port, "POST", "/speed?to=0.0001")[0] == 200
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("POST", "/v1/completions", json.dumps(asked(100_000, 20)))
    client.getresponse().close()
    while json.loads(ask(port, "GET", "/state")[1])["running"] != 1:
        pass
    client.close()
    while json.loads(ask(port, "GET", "/state")[1])["running"] != 0:
        pass
    assert ask(port, "POST", "/speed?to=1")[0] == 200


@pytest.mark.parametrize("body", [[], {"prompt": 1, "seed": 1}, {"prompt": "x"}, asked(1_100_000, 1)])
def test_what_an_engine_cannot_take_is_refused(port: int, body: object) -> None:
    assert ask(port, "POST", "/v1/completions", body)[0] == 400
    assert ask(port, "GET", "/health")[0] == 200


def test_two_contenders_are_asked_the_same_and_every_figure_is_there(tmp_path: Path) -> None:
    names = ("nginx-least_conn", "steelyard-prefix")
    small = scenario(names, quick=True)
    small = replace(small, load=replace(small.load, seconds=2, warm_up_s=1, cool_down_s=0))
    runs, missing = session.run(small, None, tmp_path, find_programs.find(None))
    assert missing == {}
    assert [run.trial.algorithm for run in runs] == list(names)
    assert [one.due_s for one in runs[0].streams] == [one.due_s for one in runs[1].streams]
    for run in runs:
        known = figures(run)
        assert {one.failure for one in run.streams} == {""}
        assert all(0 < one.ttft_s <= one.ended_s - one.due_s + 1e-6 for one in run.streams)
        assert all(known[f"ttft_p{part}_s"] for part in (50, 90, 99))
        assert sum(known[f"share_{name}"] or 0 for name in SIZES) == pytest.approx(1)
        assert {one.engine for one in run.readings} == set(SIZES)
    # Finished trials are not measured again.
    assert session.run(small, None, tmp_path, find_programs.find(None))[0] == runs


def test_an_unknown_contender_is_refused_with_a_list_of_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", "inference", "--only", "nginx"]) == 1
    assert capsys.readouterr().err.startswith(
        "steelyard-loadtest compare: there is no contender 'nginx'; there are nginx-rr,"
    )


def test_a_contender_that_is_not_installed_says_how_to_get_it() -> None:
    programs = replace(find_programs.find(None), others={})
    why = balancers.why_missing(BY_NAME["sglang-cache_aware"], programs)
    assert why == "not installed (.venv/bin/uv pip install --require-hashes -r requirements/inference.txt)"
    assert Path(__file__).parents[2].joinpath("requirements/inference.txt").exists()
