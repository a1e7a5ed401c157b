"""Every command against a real controller: its output, its changes, and its end."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pymemcache.client.base import Client
from steelyard_controller.api.streams import OF_ONE_CLIENT
from steelyard_controller.cli import main
from steelyard_protocol import wire

from testing import hostile_servers, warm_start
from testing.daemons import Daemon, free_port, memcached_in
from testing.handler_server import serving
from testing.waiting import PATIENCE_S, wait_until

from ..examples import report, sample
from ..processes import LOCAL, own_token

pytestmark = pytest.mark.integration


ADMIN, READER = "an-admin-token-of-a-test", "a-reading-token-of-a-test"

WEB = """
upstreams:
  web:
    law: static
    shadows: {paper: {}}
    peers:
      - {id: a, address: "10.0.0.1:80", baseline: 1}
      - {id: b, address: "10.0.0.2:80", baseline: 1}
      - {id: c, address: "10.0.0.3:80", baseline: 2}
"""


class Controller:
    """A controller process; it can be killed and started again on the same port."""

    def __init__(self, memcached: Daemon, folder: Path, *flags: str, declared: str = WEB) -> None:
        self.port = free_port()
        self._log = folder / "controller.log"
        config = folder / "steelyard.yaml"
        config.write_text(declared)
        self._command = [
            sys.executable, "-m", "steelyard_controller", "--config", str(config), "--tick-s", "0.1",
            "--memcached", memcached.address, "--state-url", "memory://", "--api-port", str(self.port),
            *flags,
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = warm_start.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._is_ready, self._log.read_text)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool | None:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:  # noqa: S310
                return True if answer.status == 200 else None
        except (urllib.error.URLError, OSError):
            return None


@contextlib.contextmanager
def running(memcached: Daemon, folder: Path, *flags: str, declared: str = WEB) -> Iterator[Controller]:
    controller = Controller(memcached, folder, *flags, declared=declared)
    controller.start()
    try:
        yield controller
    finally:
        controller.kill()


@contextlib.contextmanager
def running_in(folder: Path) -> Iterator[Controller]:
    """Run a controller for tests without changes of its weights: a start takes 2 s of CPU time."""
    with memcached_in(folder) as memcached, running(memcached, folder) as one:
        yield one


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    with running_in(tmp_path_factory.mktemp("controller")) as one:
        yield one


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def steelyard(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run the command, with its standard output in a pipe."""
    for name in ("STEELYARD_URL", "STEELYARD_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Ran:
        capsys.readouterr()
        status = main(arguments)
        return Ran(status, *capsys.readouterr())

    return run


def test_an_operators_day(memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]) -> None:
    client = Client(("127.0.0.1", memcached.port))
    client.set(wire.sample_key("web", "a"), sample("a", cpu=0.5), noreply=False)
    client.set(wire.sample_key("web", "b"), b"\x1b[2Jgarbage", noreply=False)
    client.set(wire.traffic_key("web", "edge-1"), report(a=(50, 0, 2, 10.0)), noreply=False)
    client.close()
    with running(memcached, tmp_path) as controller:

        def run(*arguments: str) -> Ran:
            ran = steelyard("--url", controller.url, *arguments)
            assert "\x1b" not in ran.out + ran.err
            return ran

        # Looking.
        status = run("status")
        assert (status.status, status.err) == (0, "")
        assert " leads in term " in status.out
        assert "refused: sample of b: not_json: " in status.out
        document = run("status", "web", "--json").document
        assert list(document) == ["service", "upstreams", "overview"]
        assert document["overview"]["peers"][0]["utilization"]["cpu"] == 0.5
        assert list(run("status", "--json").document) == ["service", "upstreams"]
        found = run("status", "web", "--search", "0.0.3", "--limit", "1").out
        assert ("10.0.0.3:80" in found, "10.0.0.2:80" in found) == (True, False)
        assert "2 more: --limit 3 shows them" in run("status", "web", "--limit", "1", "--search", "0.0").out
        assert "limit" in run("status", "--limit", "0").err
        assert [row["name"] for row in run("upstreams", "--json").document["upstreams"]] == ["web"]
        assert run("upstreams").out.splitlines()[1].split() == [
            "web", "static", "vnswrr2", "3", "1", "-",
            "ok;", "2", "of", "3", "servers:", "no", "sample", "yet",
        ]  # fmt: skip
        table = run("weights", "web", "--json").document
        assert [peer["weight"] for peer in table["peers"]] == [250, 250, 500]
        assert [line.split()[3] for line in run("weights").out.splitlines()[2:]] == ["25.0", "25.0", "50.0"]
        assert run("explain", "c").out.splitlines()[0] == "web/c"
        explained = run("explain", "web", "c", "--json").document
        assert explained["sentence"] in run("explain", "web", "c").out
        assert explained["shadows"]["paper"]["weight"] > 0

        # Changing.
        drained = run("drain", "a", "--wait")
        assert drained.status == 0
        assert drained.out.splitlines() == [
            "web/a: state up → drain",
            "PEER  SHARE % BEFORE  AFTER  CHANGE",
            "a               25.0    0.0   -25.0",
            "b               25.0   33.3    +8.3",
            "c               50.0   66.7   +16.7",
        ]
        assert run("drain", "web", "a").out == (
            "web/a: nothing to do, it is so already (state drain, pin none)\n"
        )
        assert run("undrain", "a").out.splitlines() == [
            "web/a: state drain → up",
            "its share was 0.0 %; the next weight tables have it (--wait shows the shares before and after)",
        ]
        pinned = run("pin", "c", "20", "--wait", "--json")
        assert (pinned.document["pin"], pinned.document["live"]["share"]) == (20.0, 0.2)
        assert run("unpin", "web", "c").out.splitlines()[0] == "web/c: pin 20 % → none"
        assert run("state", "web", "b", "backup").status == 0
        kept = run("undrain", "b")
        assert (kept.status, kept.out) == (6, "")
        assert "`steelyard state web b up` gives it requests" in kept.err

        # Looking back.
        past = run("history", "--json").document
        assert past["upstream"] == "web"
        assert run("history").out.splitlines()[1].split() == [
            "PEER",
            "SHARE",
            "%",
            "NOW",
            "LEAST",
            "MOST",
            "COURSE",
        ]

        # Mistakes.
        nobody = run("drain", "web", "nobody")
        assert (nobody.status, nobody.out) == (5, "")
        assert nobody.err == "steelyard: web: there is no peer nobody; there are: a, b, c\n"
        for arguments in (
            ["status", "shop"],
            ["weights", "shop"],
            ["watch", "shop"],
            ["explain", "shop", "a"],
        ):
            nothing = run(*arguments)
            assert (nothing.status, nothing.out) == (5, ""), arguments
            assert "shop; there are: web" in nothing.err
        assert run("pin", "b", "60").status == 0
        too_much = run("pin", "c", "60")
        assert too_much.status == 6
        assert "the pins sum to 120 %" in too_much.err


@contextlib.contextmanager
def unheard(target: str) -> Iterator[str]:
    """Yield the URL of a way to the controller at `target` that loses the answer to a PUT."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = LOCAL.get(target + self.path)
            self.send_response(answer.status_code)
            self.send_header("ETag", answer.headers["ETag"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            passed_on = {name: self.headers[name] for name in ("Content-Type", "If-Match", "Authorization")}
            LOCAL.put(target + self.path, content=body, headers=passed_on).raise_for_status()
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_change_that_was_done_unheard_is_no_conflict_at_the_next_controller(
    controller: Controller, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    file = tmp_path / "wanted.yaml"
    with unheard(controller.url) as lossy:
        file.write_text("upstreams: {web: {picker: least_conn}}")
        ran = steelyard("--url", f"{lossy},{controller.url}", "apply", str(file))
        assert (ran.status, ran.out) == (0, "web: picker vnswrr2 -> least_conn\n"), ran.err
        assert steelyard("--url", controller.url, "apply", str(file)).out == "web: nothing to do\n"


def test_what_was_saved_is_brought_back_and_nothing_of_later_is_undone(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    file = tmp_path / "saved.yaml"
    with running(memcached, tmp_path) as controller:

        def run(*arguments: str) -> Ran:
            return steelyard("--url", controller.url, *arguments)

        assert run("pin", "web", "c", "40", "--wait").status == 0
        assert run("save", "--output", str(file)).out == ""
        assert file.read_text() == run("save").out
        full = run("save", "--output", "/dev/full")
        assert (full.status, full.out) == (7, "")
        assert full.err == "steelyard: --output /dev/full cannot be written: No space left on device\n"
        assert (
            yaml.safe_load(file.read_text())["upstreams"]
            == run("save", "web", "--json").document["upstreams"]
        )
        assert run("apply", str(file)).out == "web: nothing to do\n"
        # Later: one is drained, one has registered, one is gone, the law is another.
        assert run("drain", "web", "a").status == 0
        url = f"{controller.url}/v1/upstreams/web"
        assert LOCAL.put(f"{url}/peers/d", json={"address": "10.0.0.4:80"}, headers=own_token()).is_success
        assert LOCAL.delete(f"{url}/peers/b", headers=own_token()).is_success
        changed = tmp_path / "changed.yaml"
        changed.write_text("upstreams: {web: {law: paper, shadows: {}}}")
        assert run("apply", str(changed)).status == 0
        changes = "law paper -> static; shadows.paper none -> {}; b added (10.0.0.2:80)"
        assert run("apply", str(file), "--dry-run").out == f"web: would be: {changes}\n"
        assert run("apply", str(file)).out == f"web: {changes}\n"
        peers = LOCAL.get(f"{url}/declaration").json()["peers"]
        assert {peer["id"]: (peer["state"], peer["pin"]) for peer in peers} == {
            "a": ("drain", None), "b": ("up", None), "c": ("up", 40.0), "d": ("up", None)
        }  # fmt: skip
        # Restoring the earlier state undoes later changes, and prints them first.
        before = LOCAL.get(f"{url}/declaration").content
        undone = "d removed; a: state drain -> up"
        assert run("apply", str(file), "--replace", "--dry-run").out == f"web: would be: {undone}\n"
        assert LOCAL.get(f"{url}/declaration").content == before
        assert run("apply", str(file), "--replace").out == f"web: {undone}\n"
        assert run("apply", str(file), "--replace").out == "web: nothing to do\n"
        nowhere = run("save", "nowhere")
        assert (nowhere.status, "nowhere" in nowhere.err) == (5, True)


def test_apply_declares_what_the_file_says_and_leaves_the_rest(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    file = tmp_path / "wanted.yaml"
    with running(memcached, tmp_path, declared="{}\n") as controller:

        def run(*arguments: str) -> Ran:
            return steelyard("--url", controller.url, *arguments)

        assert "steelyard apply FILE" in run("status").out
        nothing = run("weights")
        assert (nothing.status, nothing.out) == (5, "")
        file.write_text(WEB)
        assert run("apply", str(file), "--dry-run").out == "web: would be: declared\n"
        assert run("upstreams", "--json").document["upstreams"] == []
        assert run("apply", str(file)).out == "web: declared\n"
        assert run("apply", str(file)).out == "web: nothing to do\n"
        assert run("drain", "web", "a", "--wait").status == 0
        file.write_text(
            "upstreams: {web: {picker: least_conn, peers: [{id: a, address: '10.0.0.9:80'}]}, api: {}}"
        )
        changes = [
            "web: picker vnswrr2 -> least_conn; a: address 10.0.0.1:80 -> 10.0.0.9:80",
            "api: declared",
        ]
        assert run("apply", str(file)).out.splitlines() == changes
        peers = run("weights", "web", "--json").document["peers"]
        assert [(peer["id"], peer["state"]) for peer in peers] == [("a", "drain"), ("b", "up"), ("c", "up")]
        pruned = run("apply", str(file), "--prune", "--json").document
        assert pruned == {
            "upstreams": [
                {"upstream": "web", "what": "b removed; c removed", "applied": True},
                {"upstream": "api", "what": "nothing to do", "applied": False},
            ]
        }
        # Now there are two.
        several = run("weights")
        assert (several.status, several.out) == (2, "")
        assert several.err == "steelyard: there are several upstreams; name one of: api, web\n"


def test_tokens(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {}
    for name, token in (("admin", ADMIN), ("reader", READER), ("wrong", "a-token-that-nobody-knows")):
        files[name] = tmp_path / name
        files[name].touch(mode=0o600)
        files[name].write_text(f"{token}\n")
    flags = ("--admin-token-file", str(files["admin"]), "--read-token-file", str(files["reader"]))
    with running(memcached, tmp_path, *flags) as controller:

        def run(*arguments: str) -> Ran:
            ran = steelyard("--url", controller.url, *arguments)
            assert "-token-" not in (ran.out + ran.err).replace("--token-file", "")
            return ran

        without = run("status")
        assert (without.status, without.out) == (4, "")
        assert "--token-file or STEELYARD_TOKEN" in without.err
        assert len(without.err.splitlines()) == 1
        assert run("status", "--token-file", str(files["wrong"])).status == 4
        assert run("status", "--token-file", str(files["reader"])).status == 0
        assert run("watch", "--count", "1").status == 4
        refused = run("drain", "a", "--token-file", str(files["reader"]))
        assert (refused.status, refused.out) == (4, "")
        monkeypatch.setenv("STEELYARD_TOKEN", ADMIN)
        assert run("drain", "a").status == 0
        # The flag is stronger.
        assert run("drain", "a", "--token-file", str(files["wrong"])).status == 4


def test_who_changed_what(memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]) -> None:
    # Its own token is used without a flag, as for a change.
    with running(memcached, tmp_path) as controller:

        def run(*arguments: str) -> Ran:
            return steelyard("--url", controller.url, *arguments)

        assert run("drain", "a").status == 0
        assert run("pin", "b", "20").status == 0
        lines = run("audit").out.splitlines()
        assert [line.split() for line in lines[:1]] == [
            ["WHEN", "(UTC)", "WHO", "AS", "BY", "WAY", "OF", "FROM", "UPSTREAM", "WHAT"]
        ]
        assert [line.split("  web  ")[-1].strip() for line in lines[1:4]] == [
            "b: pin none -> 20", "a: state up -> drain", "declared"
        ]  # fmt: skip
        assert " admin " in lines[1]
        assert " the configuration file " in lines[3]
        newest = json.loads(run("audit", "web", "--limit", "1", "--json").out)["entries"]
        assert [each["what"] for each in newest] == ["b: pin none -> 20"]
        assert newest[0]["changes"] == [{"field": "peers.b.pin", "before": None, "after": 20.0}]
        before = run("audit", "--before", str(newest[0]["id"])).out.splitlines()
        assert before[1:-1] == lines[2:4]
        assert run("audit", "nowhere").out == "nothing was changed\n"
        assert run("status", "--search", "x" * 101).status == 2  # only the controller knows this bound


def test_what_is_degraded_is_status_1(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    with running(memcached, tmp_path) as controller:
        memcached.kill()

        def degraded() -> Ran | None:
            ran = steelyard("--url", controller.url, "status")
            return ran if ran.status == 1 else None

        ran = wait_until(degraded, lambda: "status stays 0")
        assert f"degraded: memcached {memcached.address}: " in ran.out
        assert ran.err == ""


def test_a_pipe_gets_a_line_for_each_tick(controller: Controller, steelyard: Callable[..., Ran]) -> None:
    ran = steelyard("--url", controller.url, "watch", "--count", "2")
    assert ran.status == 0
    first, second = ran.out.splitlines()
    assert first.endswith(": a 250 25.0%, b 250 25.0%, c 500 50.0%")
    assert first.startswith("web ")
    assert first != second
    ran = steelyard("--url", controller.url, "watch", "web", "--count", "2", "--json")
    generations = [json.loads(line)["generation"] for line in ran.out.splitlines()]
    assert generations == sorted(generations)
    assert len(set(generations)) == 2


def terms(log: Path) -> set[int]:
    """Return the terms of the logged ticks."""
    lines = log.read_text().splitlines(keepends=True)
    return {json.loads(line)["term"] for line in lines if line.startswith("{") and line.endswith("\n")}


@contextlib.contextmanager
def watching(controller: Controller, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (
        log.open("wb") as output,
        warm_start.Popen(
            [sys.executable, "-m", "steelyard_controller.cli", "watch", "web", "--json"],
            stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "STEELYARD_URL": controller.url},
        ) as process,
    ):  # fmt: skip
        try:
            wait_until(lambda: terms(log), log.read_text)
            yield process
        finally:
            process.kill()


def test_watch_outlives_a_restart_of_the_controller(memcached: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "watch.log"
    with running(memcached, tmp_path) as controller, watching(controller, log) as process:
        controller.kill()
        wait_until(lambda: "trying again" in log.read_text(), log.read_text)
        controller.start()
        wait_until(lambda: len(terms(log)) == 2, log.read_text)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 0
    assert "Traceback" not in log.read_text()


def test_watch_asks_while_there_is_no_place_for_its_stream_and_returns_to_it(
    memcached: Daemon, tmp_path: Path
) -> None:
    log = tmp_path / "watch.log"
    with running(memcached, tmp_path) as controller, contextlib.ExitStack() as streams:
        # One client for all streams; each keeps its connection.
        client = streams.enter_context(httpx.Client(limits=httpx.Limits(max_connections=None)))
        for _ in range(OF_ONE_CLIENT):
            streams.enter_context(client.stream("GET", f"{controller.url}/v1/events"))
        with watching(controller, log) as process:
            said = log.read_text().splitlines()
            assert said[0] == (
                f"steelyard: {controller.url}: 127.0.0.1 has {OF_ONE_CLIENT} event streams open, the most "
                "for one client: close some, or use plain requests; asking every 2 s until there is a place"
            )
            streams.close()
            wait_until(lambda: "the event stream is open again" in log.read_text(), log.read_text)
            after = len(log.read_text().splitlines())
            wait_until(lambda: len(log.read_text().splitlines()) > after + 3, log.read_text)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE_S) == 0


def test_watch_ends_with_its_upstream(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    log, file = tmp_path / "watch.log", tmp_path / "web.yaml"
    file.write_text(WEB)
    with running(memcached, tmp_path, declared="{}\n") as controller:
        assert steelyard("--url", controller.url, "apply", str(file)).status == 0
        with watching(controller, log) as process:
            LOCAL.delete(f"{controller.url}/v1/upstreams/web", headers=own_token()).raise_for_status()
            assert process.wait(timeout=PATIENCE_S) == 5
    assert log.read_text().splitlines()[-1] == "steelyard: upstream web has been deleted"


def test_of_several_controllers_the_first_that_answers_is_asked(
    memcached: Daemon, tmp_path: Path, steelyard: Callable[..., Ran]
) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    with running(memcached, tmp_path) as controller:
        for arguments in (["status"], ["drain", "a"], ["watch", "--count", "1"]):
            assert steelyard("--url", f"{dead},{controller.url}", *arguments).status == 0
    ran = steelyard("--url", f"{dead},{controller.url}", "status")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err == (
        f"steelyard: no controller answers at {dead}: connection refused; {controller.url}: connection "
        "refused; start one, or name it with --url\n"
    )


def test_a_controller_that_is_silent_is_not_waited_for(steelyard: Callable[..., Ran]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for command in (["status"], ["watch", "web"], ["drain", "web", "a"]):
            ran = steelyard("--url", url, "--timeout", "0.2", *command)
            assert (ran.status, ran.out) == (3, "")
            assert f"{url}: no answer within 0.2 s" in ran.err


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_controller_whose_answer_drips_is_not_waited_for(
    head: bytes, steelyard: Callable[..., Ran]
) -> None:
    stopped = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(head)
        while not stopped.wait(0.05):
            connection.sendall(b"H")

    with hostile_servers.serving(drip) as port:
        url = f"http://127.0.0.1:{port}"
        ran = steelyard("--url", url, "--timeout", "0.5", "status")
        stopped.set()
    assert (ran.status, ran.out) == (3, "")
    assert f"{url}: no answer within 0.5 s" in ran.err


class _Stranger(BaseHTTPRequestHandler):
    answer = (200, "text/html", b"<h1>It works!</h1>")

    def do_GET(self) -> None:
        status, media_type, body = self.answer
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_: object) -> None:
        """Log nothing."""


@pytest.mark.parametrize(
    "answer",
    [
        (200, "text/html", b"<h1>It works!</h1>"),
        (404, "text/html", b"<h1>Not Found</h1>"),
        (401, "text/plain", b"no"),
        (200, "application/json", b'{"id": 1}'),
        (200, "application/json", b"[" * 10_000),
        (503, "application/problem+json", b"\xff"),
        (302, "text/html", b""),
    ],
    ids=["a page", "not found", "a plain 401", "another document", "deep", "garbage", "elsewhere"],
)
def test_something_else_that_answers_is_one_line(
    answer: tuple[int, str, bytes], steelyard: Callable[..., Ran]
) -> None:
    handler = type("Answer", (_Stranger,), {"answer": answer})
    with serving(handler) as port:
        url = f"http://127.0.0.1:{port}"
        for command in (["status"], ["weights", "web"], ["watch"], ["drain", "web", "a"]):
            ran = steelyard("--url", url, *command)
            assert (ran.status, ran.out) == (3, "")
            assert url in ran.err
            assert len(ran.err.splitlines()) == 1
