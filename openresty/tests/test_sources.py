"""The sources of weight tables: Memcached, controllers, the disk; and their signatures."""

import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testing import warm_start
from testing.daemons import free_port
from testing.handler_server import PromptHTTPServer
from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

TABLE = "steelyard:1:weights:web"
SECRET = "the key of the tests, 32 bytes.."  # noqa: S105
NOW_MS = time.time_ns() // 1_000_000


def table(
    *peers: "Backend | tuple[str, str]", generation: int, term: int = 1, weight: int = 1, **members: object
) -> str:
    """Return a weight table in the controller's form."""
    named = [peer if isinstance(peer, tuple) else (peer.name, peer.address) for peer in peers]
    document = {
        "v": 1, "upstream": "web", "term": term, "generation": generation,
        "issued_at_ms": NOW_MS, "law": "steelyard", "picker": "vnswrr",
        "reporters": ["edge-1"], **members,
        "peers": [
            {"id": name, "address": address, "weight": weight, "baseline": 1, "state": "up"}
            for name, address in named
        ],
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"))


def digest(text: str, key: str = SECRET) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def signed(text: str, key: str = SECRET) -> str:
    return f"{digest(text, key)}.{text}"


def options(*servers: str, bootstrap: str = "", **more: str) -> str:
    """Return options of init_worker with these Memcached servers."""
    listed = ", ".join(f'"{server}"' for server in servers)
    given = "".join(f"{name} = {value}, " for name, value in more.items())
    memcached = f"memcached = {{{listed}}}, " if servers else ""
    return f"{memcached}{given}upstreams = {{ web = {{ bootstrap = {{{bootstrap}}} }} }},"


class Controller:
    """A stand-in for the controller's API: a table by upstream, with its ETag and signature.

    With `tokens` (token -> status, 200 if it may read) it demands one of them.
    """

    def __init__(self) -> None:
        self.body = ""
        self.headers: dict[str, str] = {}
        self.status = 200
        self.tokens: dict[str, int] = {}
        self.answered: list[int] = []
        self._whole = threading.Lock()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with stand_in._whole:
                    self.answer()

            def answer(self) -> None:
                tag = self.headers.get("If-None-Match")
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                status = stand_in.tokens.get(token, 401) if stand_in.tokens else stand_in.status
                if status == 200 and (self.path != "/api/v1/upstreams/web/weights" or not stand_in.body):
                    status = 404
                elif status == 200 and tag is not None and tag == stand_in.headers.get("ETag"):
                    status = 304
                stand_in.answered.append(status)
                self.send_response(status)
                for name, value in stand_in.headers.items():
                    self.send_header(name, value)
                body = stand_in.body.encode() if status == 200 else b""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = PromptHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/"
        self.option = f'{{"{self.url}"}}'

    def publish(self, text: str, **headers: str) -> None:
        """Serve a table from now on."""
        document = json.loads(text)
        etag = f'"{document["term"]}.{document["generation"]}"'
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with self._whole:
            self.headers, self.body = {"ETag": etag, **named}, text

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def controller() -> Iterator[Controller]:
    """A controller's API."""
    controller = Controller()
    yield controller
    controller.stop()


@pytest.fixture
def silent() -> Iterator[tuple[str, list[Any]]]:
    """Yield the address of a server that accepts connections and never answers, and its connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[Any] = []

    def take() -> None:
        while True:
            try:
                taken.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", taken
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for connection in taken:
        connection.close()


# --- controllers -----------------------------------------------------------


def test_the_controller_takes_over_when_memcached_dies(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.memcached.set(TABLE, table(a, generation=1))
    edge = rig.edge(workers=2, options=options(controller=controller.option))
    edge.wait_for(1)
    assert edge.upstream()["source"] == f"memcached 127.0.0.1:{rig.memcached.port}"
    controller.publish(table(b, generation=2))
    rig.memcached.stop()
    edge.wait_for(2)
    assert edge.shares(4) == {"b": 4}
    served = edge.upstream()
    assert served["source"] == f"controller {controller.url}"
    assert served["rung"] in ("fresh", "hold")
    controller.publish(table(a, generation=3))
    edge.wait_for(3)
    assert edge.logged("the controller is asked") == 1


def test_while_memcached_brings_new_tables_no_controller_is_asked(rig: "Rig", controller: Controller) -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, table(a, generation=1))
    controller.publish(table(a, generation=1))
    edge = rig.edge(options=options(controller=controller.option))
    edge.wait_for(1)
    asked, longest_s = len(controller.answered), 0.0
    for generation in range(2, 6):
        began_s = time.monotonic()
        rig.memcached.set(TABLE, table(a, generation=generation))
        edge.wait_for(generation)
        longest_s = max(longest_s, time.monotonic() - began_s)
    # nginx asks it after two seconds without a new table, which may pass on a busy machine.
    assert len(controller.answered) == asked or longest_s > 1


def test_the_controller_is_asked_when_memcached_has_nothing_new(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.memcached.set(TABLE, table(a, generation=1))
    controller.publish(table(a, generation=1))
    edge = rig.edge(options=options(controller=controller.option))
    edge.wait_for(1)
    rig.wait_until(
        lambda: controller.answered[-3:] == [304, 304, 304], "the controller is asked, and has the same"
    )
    rig.wait_until(lambda: edge.upstream()["rung"] == "hold", "the same table is no sign of life")
    controller.publish(table(b, generation=2))
    edge.wait_for(2)
    assert edge.shares(2) == {"b": 2}
    rig.wait_until(edge.fetches_well, "fetches go well")


def test_a_second_controller_is_asked_when_the_first_has_nothing_new(
    rig: "Rig", controller: Controller
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    standby = Controller()
    try:
        standby.publish(table(a, generation=1))
        controller.publish(table(b, generation=2))
        urls = f'{{"http://{rig.dead_address()}", "{standby.url}", "{controller.url}"}}'
        edge = rig.edge(options=options(rig.dead_address(), controller=urls))
        edge.wait_for(2)
        controller.publish(table(a, generation=3))
        edge.wait_for(3)
        assert edge.logged("controllers do not answer (http://127.0.0.1:") == 1
    finally:
        standby.stop()


def test_an_upstream_that_a_controller_does_not_have_is_no_failure_if_another_one_has_it(
    rig: "Rig", controller: Controller
) -> None:
    a, elsewhere = rig.backend("a"), Controller()
    try:
        elsewhere.status = 404  # It belongs to another installation.
        controller.publish(table(a, generation=1))
        urls = f'{{"{elsewhere.url}", "{controller.url}"}}'
        edge = rig.edge(options=options(rig.dead_address(), controller=urls))
        edge.wait_for(1)
        rig.wait_until(lambda: elsewhere.answered.count(404) >= 3, "both are asked again")
        assert edge.status()["controller_errors"] == 0
        controller.status = 404
        rig.wait_until(
            lambda: "it has no such upstream" in str(edge.status()["last_controller_error"]),
            "an upstream that no controller has is a failure",
        )
    finally:
        elsewhere.stop()


def test_broken_answers_of_a_controller_move_nothing(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    edge = rig.edge(options=options(rig.dead_address(), controller=controller.option))
    controller.publish(table(a, generation=5))
    edge.wait_for(5)
    controller.publish(table(b, generation=4))
    edge.wait_refused("older")
    controller.body = "<html>an error page</html>"
    edge.wait_refused("not_json")
    controller.body = "0" * 9_000_000
    rig.wait_until(lambda: edge.logged("bytes of body") == 1, "what is too large is told")
    controller.publish(table(a, generation=5))
    rig.wait_until(lambda: controller.answered[-3:] == [304, 304, 304], "it answers again")
    controller.status = 503
    rig.wait_until(lambda: edge.logged("answered 503") == 1, "the status is told")
    assert edge.shares(3) == {"a": 3}
    controller.status = 200
    controller.publish(table(b, generation=6))
    edge.wait_for(6)


def test_a_fail_over_to_a_higher_term_is_followed_and_the_old_leader_refused(
    rig: "Rig", controller: Controller
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    successor = Controller()
    try:
        controller.publish(table(a, term=3, generation=500))
        successor.status = 503  # a standby without a leader
        urls = f'{{"{successor.url}", "{controller.url}"}}'
        edge = rig.edge(workers=2, options=options(rig.dead_address(), controller=urls))
        edge.wait_for(500, term=3)
        assert "answered 503 (it has no table yet, or no leader)" in edge.status()["last_controller_error"]
        controller.status = 500
        successor.publish(table(b, term=4, generation=1))
        successor.status = 200
        edge.wait_for(1, term=4)
        controller.publish(table(a, term=3, generation=501))  # it wakes, still unaware of its successor
        controller.status = 200
        edge.wait_refused("older", 2)
        assert edge.shares(4) == {"b": 4}
        assert edge.upstream()["source"] == f"controller {successor.url}"
        successor.publish(table(a, b, term=4, generation=2))
        edge.wait_for(2, term=4)
    finally:
        successor.stop()


def test_the_order_of_terms_holds_from_one_source_to_the_other(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.memcached.set(TABLE, table(a, term=3, generation=900))
    edge = rig.edge(options=options(controller=controller.option))
    edge.wait_for(900, term=3)
    controller.publish(table(b, term=4, generation=0))
    edge.wait_for(0, term=4)
    edge.wait_refused("older")  # Memcached's table
    controller.publish(table(a, term=3, generation=901))
    before = edge.upstream()["refused"]["older"]
    edge.wait_refused("older", before + 10)
    assert edge.upstream()["source"] == f"controller {controller.url}"
    assert edge.shares(3) == {"b": 3}
    rig.memcached.set(TABLE, table(a, term=4, generation=1))
    edge.wait_for(1, term=4)
    assert edge.shares(3) == {"a": 3}


def test_the_equal_of_what_is_served_is_no_sign_of_life(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    controller.publish(table(a, term=3, generation=7))
    edge = rig.edge(options=options(rig.dead_address(), controller=controller.option))
    edge.wait_for(7, term=3)
    controller.publish(table(b, term=3, generation=7))
    controller.headers["ETag"] = '"another"'  # so that each answer has the whole table
    rig.wait_until(lambda: controller.answered[-3:] == [200, 200, 200], "it is taken again and again")
    rig.wait_until(lambda: edge.upstream()["rung"] == "hold", "it is not fresh")
    assert edge.shares(3) == {"a": 3}


# --- the controller's token --------------------------------------------------

TOKEN = "read-only.token/of+the~tests="  # noqa: S105


def test_a_controller_that_wants_a_token_gets_it(rig: "Rig", controller: Controller) -> None:
    a = rig.backend("a")
    controller.tokens = {TOKEN: 200}
    controller.publish(table(a, generation=1))
    given = {"controller": controller.option, "controller_token": f'"{TOKEN}"'}
    edge = rig.edge(options=options(rig.dead_address(), **given))
    edge.wait_for(1)
    assert set(controller.answered) <= {200, 304}
    controller.publish(table(a, generation=2))
    edge.wait_for(2)
    for page in ("/steelyard/status", "/"):
        assert TOKEN not in edge.get(page).body
    assert edge.logged(TOKEN) == 0


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (None, "answered 401 (it wants a token: set the option `controller_token` of init_worker)"),
        ("wrong", "answered 401 (the option `controller_token` of init_worker is none of its tokens)"),
        ("agent", "answered 403 (the option `controller_token` of init_worker is a token that may not read)"),
    ],
)
def test_a_token_that_does_not_do_is_told_and_the_next_controller_asked(
    rig: "Rig", controller: Controller, token: str | None, reason: str
) -> None:
    a = rig.backend("a")
    strict = Controller()
    try:
        strict.tokens = {TOKEN: 200, "agent": 403}
        strict.publish(table(a, generation=9))
        controller.publish(table(a, generation=1))
        given = {"controller": f'{{"{strict.url}", "{controller.url}"}}'}
        if token:
            given["controller_token"] = f'"{token}"'
        edge = rig.edge(options=options(rig.dead_address(), **given))
        edge.wait_for(1)
        # The time of the next request may follow: after an answer of 0.1 s the controller waits for its turn.
        assert edge.status()["last_controller_error"].startswith(f"{strict.url}: {reason}")
        assert edge.logged(reason) == 1
        assert token in (None, "agent") or edge.logged(token) == 0
    finally:
        strict.stop()


def test_a_real_controller_is_believed_by_its_signature(rig: "Rig", tmp_path: Path) -> None:
    a = rig.backend("a")
    port = free_port()
    config = tmp_path / "controller.yaml"
    config.write_text(
        "upstreams:\n  web:\n    law: static\n    peers:\n"
        f'      - {{ id: server-1, address: "{a.address}", baseline: 3 }}\n'
    )
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(config),
        "--api-port", str(port), "--memcached", rig.dead_address(),
        "--state-url", "memory://", "--tick-s", "0.2",
    ]  # fmt: skip
    with (tmp_path / "controller.log").open("wb") as log:
        daemon = warm_start.Popen(
            command, env={**os.environ, "STEELYARD_KEY": SECRET}, stdout=log, stderr=log
        )
    try:
        urls = f'{{"http://127.0.0.1:{port}"}}'
        edge = rig.edge(options=options(rig.dead_address(), controller=urls, key=f'"{SECRET}"'))
        rig.wait_until(lambda: edge.upstream()["rung"] == "fresh", "a table of the controller")
        assert edge.shares(2) == {"a": 2}
        served = edge.upstream()
        assert (served["law"], served["source"]) == ("static", f"controller http://127.0.0.1:{port}")
        rig.wait_until(lambda: edge.upstream()["generation"] > served["generation"], "the next table")
        assert sum(edge.upstream()["refused"].values()) == 0
    finally:
        daemon.kill()
        daemon.wait()


@pytest.mark.parametrize(
    ("derived", "own", "refused"),
    [("accept", False, None), ("accept", True, None), ("require", True, None),
     ("require", False, "signed with the shared key, not with its own")],
)  # fmt: skip
def test_a_load_balancer_with_a_key_of_its_own_reads_tables_and_is_read(
    rig: "Rig", tmp_path: Path, derived: str, own: bool, refused: str | None
) -> None:
    a = rig.backend("a")
    port, config = free_port(), tmp_path / "controller.yaml"
    config.write_text(
        "upstreams:\n  web:\n    law: static\n    load_balancers: [edge-1]\n    peers:\n"
        f'      - {{ id: server-1, address: "{a.address}", baseline: 3 }}\n'
    )
    environment = {**os.environ, "STEELYARD_KEY": SECRET}
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(config), "--api-port", str(port),
        "--memcached", f"127.0.0.1:{rig.memcached.port}", "--state-url", "memory://", "--tick-s", "0.2",
        "--derived-keys", derived,
    ]  # fmt: skip
    keys = [str(Path(sys.executable).parent / "steelyard"), "keys", "lb", "edge-1"]
    printed = subprocess.run(keys, env=environment, check=True, capture_output=True, text=True)
    with (tmp_path / "controller.log").open("wb") as log:
        daemon = warm_start.Popen(command, env=environment, stdout=log, stderr=log)

    def overview() -> dict[str, Any]:
        url = f"http://127.0.0.1:{port}/v1/upstreams/web"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            document: dict[str, Any] = json.load(answer)
            return document

    try:
        key = printed.stdout.strip() if own else SECRET
        edge = rig.edge(options=options(f"127.0.0.1:{rig.memcached.port}", key=f'"{key}"'))
        rig.wait_until(lambda: edge.upstream()["rung"] == "fresh", "a table of the controller")
        assert sum(edge.upstream()["refused"].values()) == 0
        if refused is None:
            rig.wait_until(lambda: overview()["load_balancers"]["edge-1"] is not None, "a report")
            assert overview()["refused"]["now"] == {}
        else:
            rig.wait_until(lambda: refused in str(overview()["refused"]["now"]), "a refusal")
    finally:
        daemon.kill()
        daemon.wait()


# --- Memcached servers -----------------------------------------------------


def test_a_memcached_that_is_silent_does_not_delay_every_fetch(
    rig: "Rig", silent: tuple[str, list[Any]]
) -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, table(a, generation=1))
    address, connections = silent
    edge = rig.edge(options=options(address, f"127.0.0.1:{rig.memcached.port}"))
    edge.wait_for(1)
    assert len(connections) >= 1
    before = len(connections)
    for generation in range(2, 17):
        rig.memcached.set(TABLE, table(a, generation=generation))
        edge.wait_for(generation)
    # Fetches and reports went on all the time, and each would have been delayed by it.
    assert len(connections) - before < 15
    rig.wait_until(edge.fetches_well, "fetches go well")


# --- signatures ------------------------------------------------------------


def test_with_a_key_only_what_is_signed_with_it_is_believed(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.memcached.set(TABLE, signed(table(a, generation=1)))
    edge = rig.edge(workers=2, options=options(key=f'"{SECRET}"'))
    edge.wait_for(1)
    forged = table(b, generation=2)
    for reason, value in {
        "unsigned": forged,
        "signature": signed(forged, "another key of the tests, 32 by."),
        "not_json": signed(forged[:-1]),
        "older": signed(table(b, generation=0)),
    }.items():
        rig.memcached.set(TABLE, value)
        edge.wait_refused(reason)
        served = edge.upstream()
        assert (served["generation"], served["last_fetch"]) == (1, reason)
        assert edge.shares(2) == {"a": 2}
        assert edge.logged(f"is refused ({reason})") == 1
    rig.memcached.set(TABLE, signed(forged))
    edge.wait_for(2)
    assert edge.shares(2) == {"b": 2}


def test_a_signed_value_without_a_key_is_refused_with_the_remedy(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, signed(table(a, generation=1)))
    edge = rig.edge(bootstrap=[a.address])
    edge.wait_refused("signed")
    assert "set the option `key`" in edge.upstream()["last_refused"]
    assert edge.shares(2) == {"a": 2}


def test_a_forged_answer_of_a_controller_is_refused(rig: "Rig", controller: Controller) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    good, forged = table(a, generation=1), table(b, generation=2)
    controller.publish(good, Steelyard_Signature=digest(good))
    edge = rig.edge(options=options(rig.dead_address(), controller=controller.option, key=f'"{SECRET}"'))
    edge.wait_for(1)
    controller.publish(forged)
    edge.wait_refused("unsigned")
    controller.publish(forged, Steelyard_Signature=digest(good))
    edge.wait_refused("signature")
    assert edge.shares(2) == {"a": 2}
    controller.publish(forged, Steelyard_Signature=digest(forged))
    edge.wait_for(2)


def test_traffic_reports_are_signed(rig: "Rig") -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, signed(table(a, generation=1)))
    edge = rig.edge(options=options(key=f'"{SECRET}"'))
    edge.wait_for(1)
    key = "steelyard:1:traffic:web:edge-1"
    rig.wait_until(lambda: rig.memcached.get(key), "a report")
    signature, _, text = (rig.memcached.get(key) or b"").decode().partition(".")
    assert signature == digest(text)
    assert json.loads(text)["lb"] == "edge-1"


# --- the table on disk -----------------------------------------------------


def saved_in(path: Path) -> Any:
    """Return a saved table; without one, a table without peers and of generation 0."""
    text = path.read_text() if path.exists() else '{"generation":0,"peers":[]}'
    return json.loads(text.partition(".")[2] if text[0] != "{" else text)


def saved_state(rig: "Rig", folder: Path, value: str) -> Path:
    """Return the file that an nginx saved of a table, and remove everything else."""
    folder.mkdir()
    path = folder / "web.weights"
    path.write_text(value)
    rig.memcached.stop()
    return path


@pytest.mark.parametrize("key", [None, SECRET])
def test_an_nginx_that_starts_while_all_else_is_dead_serves_the_saved_table(
    rig: "Rig", tmp_path: Path, key: str | None
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    form = signed if key else str
    given = {"state_dir": f'"{tmp_path}"'} | ({"key": f'"{key}"'} if key else {})
    rig.memcached.set(TABLE, form(table(a, generation=7)))
    first = rig.edge(workers=2, options=options(**given))
    first.wait_for(7)
    path = tmp_path / "web.weights"
    rig.wait_until(path.exists, "the table is saved")
    assert path.read_text() == form(table(a, generation=7))
    first.stop()
    rig.memcached.stop()

    other = type(rig.memcached)()
    try:
        servers = [f"127.0.0.1:{rig.memcached.port}", f"127.0.0.1:{other.port}"]
        edge = rig.edge(workers=2, options=options(*servers, bootstrap=f'"{b.address}"', **given))
        edge.wait_for(7)
        assert edge.shares(4) == {"a": 4}
        served = edge.upstream()
        assert (served["rung"], served["source"], served["drift"]) == ("saved", "saved", 0)
        other.set(TABLE, form(table(b, generation=8)))
        edge.wait_for(8)
        assert edge.upstream()["rung"] in ("fresh", "hold")
        assert edge.upstream()["source"] == f"memcached {servers[1]}"
        edge.stop()
    finally:
        other.stop()


def test_a_table_larger_than_a_memcached_item_is_taken_from_a_controller_and_saved(
    rig: "Rig", tmp_path: Path, controller: Controller
) -> None:
    a = rig.backend("a")
    text = table(a, generation=7, of_a_later_format="x" * 2_000_000)
    controller.publish(text)
    given = {"state_dir": f'"{tmp_path}"', "controller": controller.option}
    edge = rig.edge(options=options(**given))
    edge.wait_for(7)
    path = tmp_path / "web.weights"
    rig.wait_until(path.exists, "the table is saved")
    assert path.read_text() == text
    edge.stop()
    controller.status = 503
    other = rig.edge(options=options(**given))
    other.wait_for(7)
    assert other.upstream()["source"] == "saved"


def test_the_saved_table_drifts_to_the_baselines_and_stays_saved(rig: "Rig", tmp_path: Path) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    document = json.loads(table(a, b, generation=7))
    document["peers"][0]["weight"] = 9
    saved_state(rig, tmp_path / "state", json.dumps(document))
    given = {"state_dir": f'"{tmp_path / "state"}"', "hold_s": "0.3", "drift_s": "1"}
    edge = rig.edge(options=options(**given))
    edge.wait_for(7)
    rig.wait_until(lambda: edge.upstream()["drift"] == 1, "the drift is over")
    assert edge.upstream()["rung"] == "saved"
    assert edge.shares(10) == {"a": 5, "b": 5}


def test_the_saved_table_is_confirmed_by_its_equal(
    rig: "Rig", tmp_path: Path, controller: Controller
) -> None:
    a = rig.backend("a")
    saved_state(rig, tmp_path / "state", table(a, generation=7))
    given = {"state_dir": f'"{tmp_path / "state"}"', "controller": controller.option}
    edge = rig.edge(options=options(**given))
    edge.wait_for(7)
    assert edge.upstream()["rung"] == "saved"
    controller.publish(table(a, generation=7))
    rig.wait_until(lambda: edge.upstream()["rung"] == "fresh", "the controller has the same table")
    assert edge.upstream()["source"] == f"controller {controller.url}"


def test_an_older_table_than_the_saved_one_names_the_file_as_the_remedy(
    rig: "Rig", tmp_path: Path, controller: Controller
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    path = saved_state(rig, tmp_path / "state", table(a, generation=7, term=3))
    given = {"state_dir": f'"{tmp_path / "state"}"', "controller": controller.option}
    edge = rig.edge(options=options(**given))
    controller.publish(table(b, generation=900, term=1))
    edge.wait_refused("older")
    assert f"that is the table in {path}" in edge.upstream()["last_refused"]
    assert edge.shares(2) == {"a": 2}


HOSTILE = {
    "not_json": "\x00garbage",
    "too_large": "0" * 9_000_000,
    "upstream": '{"v":1,"upstream":"api","term":1,"generation":1,"issued_at_ms":1,'
    '"law":"x","picker":"y","reporters":[],"peers":[]}',
    "signed": signed("{}"),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_a_broken_saved_table_is_refused_and_nothing_else(rig: "Rig", tmp_path: Path, reason: str) -> None:
    a = rig.backend("a")
    path = saved_state(rig, tmp_path / "state", HOSTILE[reason])
    given = {"state_dir": f'"{tmp_path / "state"}"'}
    edge = rig.edge(workers=2, options=options(bootstrap=f'"{a.address}"', **given))
    assert edge.shares(4) == {"a": 4}
    assert edge.upstream()["rung"] == "bootstrap"
    assert edge.logged(f"the saved table in {path} is refused ({reason})") == 1


def test_an_unsigned_saved_table_is_not_believed_where_a_key_is_set(rig: "Rig", tmp_path: Path) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    path = saved_state(rig, tmp_path / "state", table(b, generation=7))
    given = {"state_dir": f'"{tmp_path / "state"}"', "key": f'"{SECRET}"'}
    edge = rig.edge(options=options(bootstrap=f'"{a.address}"', **given))
    assert edge.shares(3) == {"a": 3}
    assert edge.logged(f"the saved table in {path} is refused (unsigned)") == 1


def test_a_table_is_saved_when_its_peers_change_and_not_at_each_generation(
    rig: "Rig", tmp_path: Path
) -> None:
    a, b = rig.backend("a"), rig.backend("b")
    path = tmp_path / "web.weights"
    rig.memcached.set(TABLE, table(a, generation=1))
    edge = rig.edge(workers=2, options=options(state_dir=f'"{tmp_path}"'))
    edge.wait_for(1)
    rig.wait_until(lambda: saved_in(path)["generation"] == 1, "the first table is saved")
    for generation in range(2, 8, 2):
        rig.memcached.set(TABLE, table(a, generation=generation))
        edge.wait_for(generation)
    rig.memcached.set(TABLE, table(a, b, generation=8))
    edge.wait_for(8)
    rig.memcached.set(TABLE, table(a, generation=9, weight=2))
    edge.wait_for(9)
    assert saved_in(path)["generation"] in (1, 8, 9), "those between changed nothing"
    rig.wait_until(lambda: saved_in(path)["generation"] == 9, "what was skipped is saved in the end")
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.is_file()) == ["web.weights"]


def test_a_state_dir_that_cannot_be_written_is_one_clear_line(rig: "Rig", tmp_path: Path) -> None:
    a = rig.backend("a")
    rig.memcached.set(TABLE, table(a, generation=1))
    edge = rig.edge(workers=4, options=options(state_dir=f'"{tmp_path / "absent"}"'))
    edge.wait_for(1)
    assert edge.status()["saved_error"] == "No such file or directory"
    rig.memcached.set(TABLE, table(a, generation=2, weight=2))
    edge.wait_for(2)
    assert edge.shares(4) == {"a": 4}
    assert edge.logged("weight tables are not saved (No such file or directory)") == 1


# --- size ------------------------------------------------------------------


def test_a_table_of_ten_thousand_peers_is_taken_again_and_again_while_requests_go_on(
    rig: "Rig", tmp_path: Path
) -> None:
    a = rig.backend("a")
    port = int(a.address.rpartition(":")[2])
    peers = [(f"server-{n:05d}", f"127.0.0.1:{port}") for n in range(10_000)]
    rig.memcached.set(TABLE, signed(table(*peers, generation=1)))
    given = {"state_dir": f'"{tmp_path}"', "key": f'"{SECRET}"'}
    edge = rig.edge(workers=2, options=options(**given))
    edge.wait_for(1)
    with edge.under_load(1, pause_s=0.003) as statuses:
        for generation in range(2, 8, 2):
            rig.memcached.set(TABLE, signed(table(*peers, generation=generation, weight=generation // 2)))
            edge.wait_for(generation)
    assert len(statuses) > 10
    assert set(statuses) == {200}
    assert sum(edge.upstream()["refused"].values()) == 0
    path = tmp_path / "web.weights"
    rig.wait_until(
        lambda: saved_in(path)["peers"][-1:] and saved_in(path)["peers"][-1]["weight"] == 3, "saved"
    )
    assert len(saved_in(path)["peers"]) == 10_000
