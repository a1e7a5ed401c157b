"""A client of the load balancer or its pages gets no chosen server, no page and no secret."""

import json
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from openresty.tests.nginx_process import Edge, config, one_upstream
from openresty.tests.rig import Rig
from openresty.tests.test_sources import Controller, options, signed, table
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

PAGES = ("/steelyard/status", "/steelyard/metrics")
METRICS = 'location = /steelyard/metrics { content_by_lua_block { require("steelyard").metrics() } } }'

KEY = "a-shared-key/of+the-secrets-test"
TOKEN = "a-read-token/of+the-secrets-test"  # noqa: S105
WRONG = "another-key-than/the+one-of-nginx"


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.stop()


def exchange(edge: Edge, request: str) -> str:
    """Send a request unchanged, and return the whole answer."""
    with socket.create_connection(("127.0.0.1", edge.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request.encode("latin-1"))
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer.decode("latin-1")


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Client-IP", "True-Client-IP"])
def test_no_header_makes_a_stranger_loopback(rig: Rig, header: str) -> None:
    edge = rig.edge(options=options(rig.dead_address()), servers=METRICS)
    for page in PAGES:
        # nginx itself takes the client's address from X-Real-IP here, as behind a trusted proxy.
        stranger = {"X-Real-IP": "192.0.2.1", header: "127.0.0.1"}
        assert edge.get(page, stranger).status == 403
        assert edge.get(page).status == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via"])
def test_what_a_proxy_on_this_machine_passes_on_is_not_loopback(rig: Rig, header: str) -> None:
    edge = rig.edge(options='allow = {"10.1.0.0/16"},' + options(rig.dead_address()), servers=METRICS)
    for page in PAGES:
        refused = edge.get(page, {header: "192.0.2.1"})
        assert refused.status == 403
        assert "proxy" in refused.json()["detail"]
        # An address in `allow` may come through a proxy.
        assert edge.get(page, {header: "192.0.2.1", "X-Real-IP": "10.1.2.3"}).status == 200


def test_a_request_cannot_choose_its_server(rig: Rig) -> None:
    up, other = rig.backend("up"), rig.backend("other")
    rig.publish([("up", up.address, 1, "up"), ("other", other.address, 1, "drain")], generation=1)
    edge = rig.edge()
    edge.wait_for(1)
    asked = [
        f"GET / HTTP/1.1\r\nHost: {other.address}\r\n",
        f"GET http://{other.address}/ HTTP/1.1\r\nHost: a\r\n",
        *(
            f"GET /?peer=other HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n"
            for name in ("X-Steelyard-Server", "X-Accel-Redirect", "X-Forwarded-Host", "Cookie")
            for value in ("other", other.address, "peer=other; server=other")
        ),
    ]  # fmt: skip
    for request in asked:
        answer = exchange(edge, f"{request}Connection: close\r\n\r\n")
        assert "X-Backend: up\r\n" in answer, request


def test_the_control_plane_is_not_behind_the_load_balancer(rig: Rig, controller: Controller) -> None:
    a = rig.backend("a")
    controller.publish(table(a, generation=1))
    edge = rig.edge(options=options(rig.dead_address(), controller=controller.option))
    edge.wait_for(1)
    own = len(controller.answered)
    for path in (
        "/v1/upstreams/web/weights",
        "/api/v1/upstreams/web",
        "/steelyard/../v1/upstreams",
        "/@steelyard_failure",
    ):
        answer = edge.get(path)
        assert (answer.status, answer.server) == (200, "a")
    # nginx itself sent all requests to the controller, with its token.
    assert set(controller.answered[own:]) <= {304}


@pytest.mark.parametrize(
    "request_",
    [
        "GET / HTTP/1.1\r\nHost: a\r\nX: " + "y" * 100_000 + "\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n" + "".join(f"X-{n}: {'y' * 1000}\r\n" for n in range(100)),
        "GET /" + "y" * 100_000 + " HTTP/1.1\r\nHost: a\r\n",
        "GET /steelyard/status?" + "y" * 100_000 + " HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\x00Y: z\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    ],
    ids=["a long header", "many headers", "a long path", "a long page", "a null", "two lengths"],
)
def test_a_monstrous_request_is_refused_and_the_next_one_served(rig: Rig, request_: str) -> None:
    a = rig.backend("a")
    edge = rig.edge(bootstrap=[a.address])
    try:
        answer = exchange(edge, f"{request_}Connection: close\r\n\r\n")
    except ConnectionError:  # nginx hung up before the end of the request
        answer = ""
    assert not answer or answer.startswith("HTTP/1.1 4")
    assert "X-Backend" not in answer
    assert edge.get().status == 200
    assert edge.upstream()["peers"][0]["in_flight"] == 0


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole_for_a_version_of_http_that_there_is_not(rig: Rig, page: str) -> None:
    a = rig.backend("a")
    edge = rig.edge(bootstrap=[a.address], servers=METRICS)
    answer = exchange(edge, f"GET {page} HTTP/1.9\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.startswith("HTTP/1.1 200")
    assert a.address in answer


def test_secrets_of_nginx_show_in_no_page_no_log_and_no_process_list(
    rig: Rig, controller: Controller, tmp_path: Path
) -> None:
    a = rig.backend("a")
    controller.tokens = {TOKEN: 200}
    text = table(a, generation=1)
    controller.publish(text, Steelyard_Signature=signed(text, KEY).partition(".")[0])
    strict = Controller()
    strict.tokens = {"of-somebody-else": 200}
    try:
        given = options(
            f"127.0.0.1:{rig.memcached.port}",
            key=json.dumps(KEY),
            controller_token=json.dumps(TOKEN),
            controller=f'{{"{strict.url}", "{controller.url}"}}',
            state_dir=f'"{tmp_path}"',
        )
        http = one_upstream(rig.memcached.port, given, METRICS)
        # nginx's most verbose log, of requests and of its timers.
        text_of = config(http, 2).replace("error.log notice", "error.log debug")
        edge = Edge(tmp_path / "nginx", text_of, 2)
        try:
            edge.wait_for(1)
            rig.wait_until(lambda: strict.answered, "the controller that wants another token was asked")
            for value, reason in ((text, "unsigned"), (signed(text, WRONG), "signature")):
                rig.memcached.set("steelyard:1:weights:web", value)
                edge.wait_refused(reason)
            pages = "".join(edge.get(page).body for page in (*PAGES, "/"))
            lines = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in edge.worker_pids()).decode(
                "latin-1"
            )
        finally:
            edge._process.terminate()
            edge._process.wait()
        texts = pages + lines + edge.log.read_text(encoding="latin-1")
        built = subprocess.run(["nginx", "-V"], check=True, capture_output=True, text=True).stderr
        assert ("debug" in texts) == ("--with-debug" in built)
        for secret in (KEY, TOKEN, WRONG):
            for form in (secret, urllib.parse.quote(secret, safe=""), secret.encode().hex()):
                assert form not in texts
    finally:
        strict.stop()
