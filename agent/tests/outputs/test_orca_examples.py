"""The examples of servers that report their load, and Envoy before them, with real agents.

Two agents watch one process, which keeps a fifth of a core busy; for the second one a core is
an eighth of the capacity. So the first reports eight times the second's figure, however
busy the machine is.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from testing import warm_start
from testing.daemons import free_port
from testing.waiting import PATIENCE_S, wait_until

from ..process_scope import needs_process_scope

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
A_FIFTH_BUSY = """
import time
while True:
    until = time.monotonic() + .01
    while time.monotonic() < until: pass
    time.sleep(.04)
"""
VALUE = re.compile(r"TEXT cpu_utilization=[\d.]+,.*rps_fractional=[\d.]+")


@contextmanager
def running(command: Sequence[str], log: Path, **environment: str) -> Iterator[None]:
    with log.open("ab") as output:
        process = warm_start.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def busy_process() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", A_FIFTH_BUSY])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def agent(pid: int, cores: int, log: Path, *flags: str) -> "contextlib.AbstractContextManager[None]":
    command = [sys.executable, "-m", "steelyard_agent", "--scope", "process", "--pid", str(pid)]
    return running(
        [*command, "--cpu-limit", str(cores), "--interval", "0.5", "--memcached", "127.0.0.1:1", *flags], log
    )


def example(kind: str, port: int, file: Path, folder: Path) -> "contextlib.AbstractContextManager[None]":
    """Start an example of a server."""
    log = folder / "server.log"
    if kind == "wsgi":
        return running([sys.executable, str(EXAMPLES / "wsgi.py"), str(file), str(port)], log)
    if kind == "asgi":
        uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES), "--port", str(port)]
        return running([*uvicorn, "asgi:application"], log, STEELYARD_ORCA=str(file))
    # Debian's first: its standard library is compiled; compiling another one takes minutes.
    go = shutil.which("go", path=f"/usr/bin:{os.environ['PATH']}")
    if go is None:
        pytest.fail("go is not installed: run `make setup-tests`")
    program = folder / "server"
    built = subprocess.run(
        [go, "build", "-o", str(program), str(EXAMPLES / "server.go")],
        env={**os.environ, "GOPROXY": "off"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return running([str(program), str(file), str(port)], log)


def get(port: int, path: str = "/", host: str = "127.0.0.1") -> tuple[http.client.HTTPResponse, bytes] | None:
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response, response.read()
    except (OSError, http.client.HTTPException):  # it is not there yet
        return None
    finally:
        connection.close()


@needs_process_scope
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["wsgi", "asgi", "go"])
def test_a_server_s_answers_carry_its_agent_s_value_and_its_rate(kind: str, tmp_path: Path) -> None:
    file, port = tmp_path / "orca", free_port()

    def value() -> str | None:
        answer = get(port)
        return answer and answer[0].headers["endpoint-load-metrics"]

    with example(kind, port, file, tmp_path):
        wait_until(lambda: get(port), "it answers")
        answer = get(port)
        assert answer is not None
        assert (answer[0].status, answer[1]) == (200, b"hello\n")
        assert answer[0].headers["endpoint-load-metrics"] is None
        for _ in range(3):  # one after the other: each cleans up
            answer = get(port)
            assert answer is not None
            assert answer[0].headers["x-steelyard-in-flight"] == "1"
        with busy_process() as pid, agent(pid, 1, tmp_path / "agent.log", "--orca", str(file)):
            wait_until(lambda: VALUE.fullmatch(value() or ""), "its answers say how loaded it is")
        wait_until(lambda: get(port) and value() is None, "they say nothing when the agent has ended")


def envoy_config(ports: tuple[int, int, int], admin: int, *, oob: int | None) -> dict[str, Any]:
    """Return the example's configuration, on ports of the test.

    With `oob`, its comments are settings, too, and the servers' reports count sooner.
    """
    text = (EXAMPLES / "envoy.yaml").read_text()
    for old, new in zip((8080, 8001, 8002), ports, strict=True):
        assert f"port_value: {old}}}" in text
        text = text.replace(f"port_value: {old}}}", f"port_value: {new}}}")
    if oob is not None:
        text, replaced = re.subn(r"# (enable_oob|oob_)", r"\1", text)
        assert replaced == 3
        text = text.replace("port_value: 9812}", f"port_value: {oob}}}")
        assert "blackout_period: 2s" in text
        text = text.replace("blackout_period: 2s", "blackout_period: 0.1s")
    config: dict[str, Any] = yaml.safe_load(text)
    config["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}}
    return config


# Does not use ORCA, and counts its requests for Prometheus.
COUNTING = """
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server
WSGIRequestHandler.log_message = lambda *_: None
requests = 0
def application(environ, start_response):
    global requests
    if environ["PATH_INFO"] == "/metrics":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"# TYPE requests counter\\nrequests_total{status=\\"200\\"} %d\\n" % requests]
    requests += 1
    start_response("200 OK", [("X-Server", environ["SERVER_NAME"])])
    return [b"hello\\n"]
make_server(sys.argv[1], int(sys.argv[2]), application).serve_forever()
"""


def rates(host: str, port: int) -> str:
    """Return the file of an agent that counts the requests of such a server."""
    counter = f'prometheus = "http://{host}:{port}/metrics"\nmetric = "requests_total"\n'
    return f"[rps_fractional]\n{counter}"


@needs_process_scope
@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["in the answers", "a stream, the rate said", "a stream, the rate counted"])
def test_envoy_prefers_the_server_that_says_it_is_less_loaded(way: str, tmp_path: Path) -> None:
    out_of_band, counted = way != "in the answers", way.endswith("counted")
    envoy = shutil.which("envoy") or shutil.which(Path(sys.executable).with_name("envoy"))
    if envoy is None:
        pytest.fail("Envoy is not installed: run `make setup-tests`")
    ports, stream, admin = (free_port(), free_port(), free_port()), free_port(), free_port()
    with ExitStack() as stack:
        pid = stack.enter_context(busy_process())
        for n, (host, cores) in enumerate((("127.0.0.1", 1), ("127.0.0.2", 8)), start=1):
            folder = tmp_path / f"server-{n}"
            folder.mkdir()
            file, rate = folder / "orca", folder / "rate"
            flags = ["--orca", str(file)]
            server = [sys.executable, str(EXAMPLES / "wsgi.py"), str(file), str(ports[n]), host]
            if counted:
                rate.write_text(rates(host, ports[n]))
                flags = ["--orca-grpc", f"{host}:{stream}", "--config", str(rate), "--memcached", "none"]
                server = [sys.executable, "-c", COUNTING, host, str(ports[n])]
            elif out_of_band:
                flags = ["--orca-grpc", f"{host}:{stream}", "--orca-app", str(rate)]
                say = 'echo TEXT rps_fractional=100 > "$0.new"; mv "$0.new" "$0"'
                keep = ["sh", "-c", f"while :; do {say}; sleep 1; done", str(rate)]
                stack.enter_context(running(keep, folder / "rate.log"))
            stack.enter_context(agent(pid, cores, folder / "agent.log", *flags))
            stack.enter_context(running(server, folder / "server.log"))
            wait_until(partial(get, ports[n], host=host), "the server answers")
        config = tmp_path / "envoy.json"
        config.write_text(json.dumps(envoy_config(ports, admin, oob=stream if out_of_band else None)))
        run = [envoy, "-c", str(config), "--concurrency", "1", "--log-level", "warn", "--disable-hot-restart"]
        stack.enter_context(running(run, tmp_path / "envoy.log"))

        def answers(requests: int) -> Counter[str]:
            time.sleep(0.1)  # Envoy changes weights once a second
            replies = [get(ports[0]) for _ in range(requests)]
            return Counter(answer[0].headers["x-server"] for answer in replies if answer)

        # Without reports, or in the first two seconds of them, each has a half. A few requests show that.
        wait_until(
            lambda: (
                answers(15)["127.0.0.1"] <= 3
                and answers(60)["127.0.0.1"] < 15 < 45 < answers(60)["127.0.0.2"]
            ),
            "the weights move",
        )
        answer = get(ports[0])
        assert answer is not None
        assert answer[0].headers["endpoint-load-metrics"] is None
