"""Registration over real sockets: a controller that answers, one that hangs, an untrusted one."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pymemcache.client.base import Client
from steelyard_agent.http_exchange import Answer
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.controller_client import ControllerClient, NoAnswer

from testing import hostile_servers, warm_start
from testing.daemons import Daemon, free_port
from testing.handler_server import PromptHTTPServer
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

PEER = "/v1/upstreams/web/peers/server-1"
KEY = "steelyard:1:sample:web:server-1"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, its token, its JSON, and the rights in its header."""

    method: str
    path: str
    token: str | None
    document: Any
    role: str | None = None


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(slots=True)
class Controller:
    """`status`, `headers` and `body` are those of every answer; none is sent before `answers` is set."""

    url: str
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    answers: threading.Event = field(default_factory=_set)


@contextmanager
def serving(*, trusted_as: ssl.SSLContext | None = None) -> Iterator[Controller]:
    """Run a controller on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            document = json.loads(content) if content else None
            token, role = self.headers.get("Authorization"), self.headers.get("Steelyard-Role")
            asked = Asked(self.command, self.path, token, document, role)
            controller.asked.append(asked)
            controller.answers.wait(PATIENCE_S)
            self.send_response(controller.status)
            for name, value in controller.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(controller.body)))
            self.end_headers()
            self.wfile.write(controller.body)

        do_PUT = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            pass

    class Server(PromptHTTPServer):
        def handle_error(self, *_: object) -> None:  # a client that does not trust us
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if trusted_as is not None:
        server.socket = trusted_as.wrap_socket(server.socket, server_side=True)
    scheme = "http" if trusted_as is None else "https"
    controller = Controller(f"{scheme}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield controller
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, *, token: str | None = None, timeout_s: float = PATIENCE_S) -> Answer | NoAnswer:
    def body(source_ip: str) -> bytes:
        return json.dumps({"from": source_ip}).encode()

    return ControllerClient(token, timeout_s=timeout_s)(register_flags.urls(url)[0], "PUT", PEER, body)


@contextmanager
def talking(*parts: bytes, pause_s: float = 0.0, end: bool = True) -> Iterator[str]:
    """Run a server that sends `parts` to every client, again and again unless `end`; give its URL."""
    closing = threading.Event()

    def talk(client: socket.socket) -> None:
        client.recv(65536)
        while True:
            for part in parts:
                client.sendall(part)
                if closing.wait(pause_s):
                    return
            if end:
                return

    with hostile_servers.serving(talk) as port:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            closing.set()


def test_a_request_has_its_token_and_knows_where_it_comes_from() -> None:
    with serving() as controller:
        controller.status, controller.body = 201, b'{"id":"server-1"}'
        answer = ask(f"{controller.url}/steelyard/", token="t0ken")  # noqa: S106
        assert answer == Answer(status=201, body=b'{"id":"server-1"}', source_ip="127.0.0.1")
        document = {"from": "127.0.0.1"}
        assert controller.asked == [Asked("PUT", f"/steelyard{PEER}", "Bearer t0ken", document, "agent")]
        url = register_flags.urls(controller.url)[0]
        assert ControllerClient(None)(url, "DELETE", PEER) == answer
        assert controller.asked[1] == Asked("DELETE", PEER, None, None)


def test_a_redirection_is_not_followed_with_the_token() -> None:
    with serving() as elsewhere, serving() as controller:
        controller.status, controller.headers = 307, {"Location": elsewhere.url + PEER}
        answer = ask(controller.url, token="t0ken")  # noqa: S106
        assert isinstance(answer, Answer)
        assert answer.status == 307
        assert elsewhere.asked == []


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as proxy, serving() as controller:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert isinstance(ask(controller.url), Answer)
        assert proxy.asked == []


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        # A reset, if the request arrives after the end.
        ([b""], "closed connection without response|reset by peer|Broken pipe"),
        ([b"hello\x1b[31m\r\n"], r"hello \[31m"),
    ],
)
def test_what_is_no_answer_is_told_in_one_line(parts: list[bytes], why: str) -> None:
    with talking(*parts) as url:
        answer = ask(url)
    assert isinstance(answer, NoAnswer)
    assert re.search(why, answer.why)
    assert answer.why.isprintable()


def test_nobody_there_and_no_such_host_are_no_answers() -> None:
    assert ask(f"http://127.0.0.1:{free_port()}") == NoAnswer("Connection refused")
    assert isinstance(ask("http://no-such-host.invalid"), NoAnswer)
    assert isinstance(ask("http://a..b"), NoAnswer)


@pytest.mark.parametrize("part", [b"", b"H", b"X: y\r\n"])
def test_who_is_silent_or_never_ends_is_cut_off(part: bytes) -> None:
    first = b"HTTP/1.1 200 OK\r\n" if part.startswith(b"X") else b""
    with talking(first + part, pause_s=0.01, end=False) as url:
        assert ask(url, timeout_s=0.2) == NoAnswer("no answer within 0.2 s")


def test_of_an_endless_answer_only_the_beginning_is_read() -> None:
    with talking(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000) as url:
        answer = ask(url)
    assert isinstance(answer, Answer)
    assert len(answer.body) == 65536


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for 127.0.0.1; return a server's context, and the file for the client's trust."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_https_trusts_what_the_system_trusts_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = certified(tmp_path)
    with serving(trusted_as=context) as controller:
        answer = ask(controller.url, token="t0ken")  # noqa: S106
        assert isinstance(answer, NoAnswer)
        assert answer.why.startswith("its certificate is not trusted: self")
        assert controller.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        answer = ask(controller.url, token="t0ken")  # noqa: S106
        assert isinstance(answer, Answer)
        assert controller.asked == [Asked("PUT", PEER, "Bearer t0ken", {"from": "127.0.0.1"}, "agent")]


def test_https_that_hangs_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, certificate = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(trusted_as=context) as controller:
        controller.answers.clear()
        try:
            assert ask(controller.url, timeout_s=0.5) == NoAnswer("no answer within 0.5 s")
        finally:
            controller.answers.set()


@contextmanager
def agent_with(
    memcached: Daemon, controller: Controller, *flags: str, log: Path, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable, "-m", "steelyard_agent", "--upstream", "web", "--peer", "server-1",
        "--memcached", memcached.address, "--interval", "0.1", "--scope", "host",
        "--register", controller.url, *flags,
    ]  # fmt: skip
    with log.open("wb") as stderr:
        agent = warm_start.Popen(command, stderr=stderr, env={**os.environ, **environment})
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()


def sample_in(memcached: Daemon) -> bytes | None:
    client = Client(("127.0.0.1", memcached.port), connect_timeout=10, timeout=10)
    try:
        value: bytes | None = client.get(KEY)
    finally:
        client.close()
    return value


def asked(controller: Controller, method: str) -> Asked:
    """Wait for a request of a method; return the first one."""
    return wait_until(lambda: next((one for one in controller.asked if one.method == method), None))


def documents(controller: Controller) -> list[object]:
    return [one.document for one in controller.asked]


def test_an_agent_registers_itself_and_stays_declared(memcached: Daemon, tmp_path: Path) -> None:
    token, log = tmp_path / "token", tmp_path / "log"
    token.write_text("t0ken\n")
    token.chmod(0o600)
    with serving() as controller:
        flags = ["--address", "auto:8080", "--baseline", "2", "--token-file", str(token)]
        with agent_with(memcached, controller, *flags, log=log) as agent:
            document = {"address": "127.0.0.1:8080", "baseline": 2.0}
            assert asked(controller, "PUT") == Asked("PUT", PEER, "Bearer t0ken", document, "agent")
            wait_until(lambda: sample_in(memcached))
            wait_until(lambda: f"at 127.0.0.1:8080 with {controller.url}" in log.read_text())
            agent.terminate()
            assert agent.wait() == 0
        assert {asked.method for asked in controller.asked} == {"PUT"}
    assert "t0ken" not in log.read_text()


def test_an_agent_that_deregisters_does_so_after_its_last_sample(memcached: Daemon, tmp_path: Path) -> None:
    with serving() as controller:
        flags = ["--address", "10.0.0.11:80", "--deregister"]
        environment = {"STEELYARD_AGENT_TOKEN": "t0ken"}
        with agent_with(memcached, controller, *flags, log=tmp_path / "log", **environment) as agent:
            asked(controller, "PUT")
            wait_until(lambda: sample_in(memcached))
            agent.terminate()
            assert agent.wait() == 0
        assert controller.asked[-1] == Asked("DELETE", PEER, "Bearer t0ken", None)
        assert b'"leaving":true' in (sample_in(memcached) or b"")


def test_samples_flow_whatever_the_controller_does(memcached: Daemon, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving() as controller:
        controller.status = 403
        controller.body = b'{"detail":"this token may not declare servers"}'
        with agent_with(memcached, controller, "--address", "10.0.0.11:80", log=log) as agent:
            asked(controller, "PUT")
            message = (
                f"{controller.url} does not register it: it answers 403: this token may not declare servers"
            )
            wait_until(lambda: message in log.read_text())
            first = wait_until(lambda: sample_in(memcached))
            wait_until(lambda: sample_in(memcached) != first)
            controller.status = 200
            agent.send_signal(signal.SIGHUP)  # now, and not in five minutes
            wait_until(lambda: "is registered at" in log.read_text())


def test_sighup_takes_up_another_address_and_another_name(memcached: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('address = "10.0.0.11:80"\n')
    with serving() as controller:
        flags = ["--config", str(file), "--deregister"]
        with agent_with(memcached, controller, *flags, log=tmp_path / "log") as agent:
            asked(controller, "PUT")
            file.write_text('address = "10.0.0.12:80"\n')
            agent.send_signal(signal.SIGHUP)
            wait_until(lambda: {"address": "10.0.0.12:80"} in documents(controller))
            assert {asked.method for asked in controller.asked} == {"PUT"}


def test_an_agent_renamed_by_sighup_takes_its_old_name_back(memcached: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('peer = "server-1"\n')
    with serving() as controller:
        command = [
            sys.executable, "-m", "steelyard_agent", "--config", str(file), "--memcached", memcached.address,
            "--interval", "0.1", "--scope", "host", "--register", controller.url,
            "--address", "10.0.0.11:80", "--deregister",
        ]  # fmt: skip
        agent = warm_start.Popen(command, stderr=subprocess.DEVNULL)
        try:
            asked(controller, "PUT")
            file.write_text('peer = "server-2"\n')
            agent.send_signal(signal.SIGHUP)
            assert asked(controller, "DELETE").path == PEER
            renamed = PEER.replace("server-1", "server-2")
            wait_until(lambda: any(one.path == renamed for one in controller.asked))
        finally:
            agent.kill()
            agent.wait()


def test_explain_shows_what_would_be_declared_and_asks_nobody() -> None:
    with serving() as controller:
        command = [
            sys.executable, "-m", "steelyard_agent", "--explain", "--interval", "0.1", "--scope", "host",
            "--peer", "server-1", "--register", controller.url, "--address", "auto:8080",
        ]  # fmt: skip
        environment = {**os.environ, "STEELYARD_AGENT_TOKEN": "t0ken"}
        ran = warm_start.run(command, env=environment)
        assert ran.returncode == 0
        assert controller.asked == []
    lines = ran.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("register"))
    assert lines[place].split() == ["register", "-", "-", controller.url + PEER]
    assert lines[place + 1].strip() == (
        "address 127.0.0.1:8080 (from auto:8080), baseline from its capacity, a token"
    )
    assert "t0ken" not in ran.stdout


def test_a_token_file_that_is_not_there_is_one_line_and_exits_2() -> None:
    command = [
        sys.executable, "-m", "steelyard_agent", "--register", "http://127.0.0.1:1", "--address", "auto:80",
        "--token-file", "/nowhere/token",
    ]  # fmt: skip
    ran = warm_start.run(command)
    message = "steelyard-agent: the token file /nowhere/token cannot be read: No such file or directory\n"
    assert (ran.returncode, ran.stderr) == (2, message)
