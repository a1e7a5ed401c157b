"""The demo and a cluster that is not as it must be: one line that says what to do, and status 1."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from steelyard_loadtest.demo import reach
from steelyard_loadtest.demo.records import Cost
from steelyard_loadtest.machine.errors import ProgramError

from testing.daemons import free_port

pytestmark = pytest.mark.integration

# What each path answers: a status and a document; a list is gone through, its last answer stays.
Answers = dict[str, list[tuple[int, object]]]


class StandIn(ThreadingHTTPServer):
    """Load balancer, controller and servers in one, which answer as the test says and note what was asked."""

    daemon_threads = True

    def __init__(self, answers: Answers) -> None:
        self.answers = {path: list(texts) for path, texts in answers.items()}
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", free_port()), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StandIn

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        known = self.server.answers.get(self.path, [(404, None)])
        status, document = known.pop(0) if len(known) > 1 else known[0]
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


StandInFor = Callable[[Answers], StandIn]


@pytest.fixture
def stand_in() -> Iterator[StandInFor]:
    """Start a stand-in, which is ended after the test."""
    started: list[tuple[StandIn, threading.Thread]] = []

    def start(answers: Answers) -> StandIn:
        server = StandIn(answers)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        started.append((server, thread))
        return server

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def demo(folder: Path, url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "steelyard_loadtest", "demo", "--out", str(folder / "out")),
            *("--base-url", url, "--controller-url", url, *flags),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def refused(done: subprocess.CompletedProcess[str], folder: Path, why: str) -> None:
    assert done.returncode == 1
    assert re.fullmatch(rf"steelyard-loadtest demo: {why}\n", done.stderr), done.stderr
    assert done.stdout == ""
    assert not (folder / "out").exists()


UP: Answers = {"/": [(200, {})], "/equal/": [(200, {})]}


def test_without_a_cluster_the_line_says_how_to_start_one(tmp_path: Path) -> None:
    done = demo(tmp_path, f"http://127.0.0.1:{free_port()}")
    refused(
        done, tmp_path, r"the load balancer does not answer at \S+ \(.+refused\); start the cluster: make up"
    )


def test_a_load_balancer_that_fails_is_told_with_its_status(tmp_path: Path, stand_in: StandInFor) -> None:
    done = demo(tmp_path, stand_in({"/": [(502, {})]}).url)
    refused(done, tmp_path, r"the load balancer answers 502 at \S+; look at it: make status")


@pytest.mark.parametrize(
    "document", [b"not json", {}, {"peers": []}, {"peers": [{"id": "server-1"}]}], ids=str
)
def test_a_controller_without_servers_is_told(tmp_path: Path, stand_in: StandInFor, document: object) -> None:
    done = demo(tmp_path, stand_in(UP | {"/v1/upstreams/web": [(200, document)]}).url)
    refused(
        done, tmp_path, r"the controller at \S+/v1/upstreams/web knows no servers; look at it: make status"
    )


def test_an_upstream_that_the_controller_does_not_know_is_told(tmp_path: Path, stand_in: StandInFor) -> None:
    done = demo(tmp_path, stand_in(UP).url, "--upstream", "other")
    refused(done, tmp_path, r"the controller answers 404 at \S+/v1/upstreams/other; look at it: make status")


def test_a_server_that_is_not_there_is_named(tmp_path: Path, stand_in: StandInFor) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    done = demo(tmp_path, stand_in(UP).url, "--servers", f"server-1={nobody}")
    refused(done, tmp_path, r"server-1 does not answer at \S+/healthz \(.+\); start the cluster: make up")


def test_a_server_without_a_limit_needs_the_rate_given(tmp_path: Path, stand_in: StandInFor) -> None:
    cluster = stand_in(UP | {"/healthz": [(200, {"cpu_seconds": 1.0, "cpu_limit_cores": None})]})
    done = demo(tmp_path, cluster.url, "--servers", f"server-1={cluster.url}")
    assert done.returncode == 1
    assert "server-1 at " in done.stderr
    assert "tells no CPU limit or usage; give the load yourself: --rate 300\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_cost_of_a_request_is_what_the_server_says_it_used(stand_in: StandInFor) -> None:
    usage = [(200, {"cpu_seconds": used_s, "cpu_limit_cores": 0.15}) for used_s in (2.0, 2.125)]
    server = stand_in(UP | {"/healthz": list(usage)})
    cost = reach.measure_cost("server-1", server.url)
    assert cost == Cost(cpu_s_per_request=0.125 / reach.CALIBRATION_REQUESTS, limit_cores=0.15)
    assert server.asked == ["GET /healthz", *["GET /"] * reach.CALIBRATION_REQUESTS, "GET /healthz"]


def test_servers_are_the_controller_s_peers(stand_in: StandInFor) -> None:
    peers = [{"id": "a", "address": "127.0.0.1:8101"}, {"id": 7, "address": "x"}, None, {"id": "b"}]
    controller = stand_in({"/v1/upstreams/web": [(200, {"peers": peers})]})
    assert reach.servers_of(f"{controller.url}/v1/upstreams/web") == {"a": "http://127.0.0.1:8101"}


def test_a_burn_that_is_refused_is_an_error_and_a_stop_that_is_refused_is_not(stand_in: StandInFor) -> None:
    server = stand_in({"/burn": [(403, {})], "/burn?seconds=30&workers=2": [(403, {})]})
    with pytest.raises(ProgramError, match="the server to burn answers 403"):
        reach.burn(server.url, seconds=30, workers=2)
    reach.stop_burning(server.url)
    reach.stop_burning(f"http://127.0.0.1:{free_port()}")
    assert server.asked == ["POST /burn?seconds=30&workers=2", "DELETE /burn"]
