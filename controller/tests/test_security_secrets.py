"""No secret leaves the place where an operator put it.

Two controllers, an agent and the command line log as much as they can, with good requests and bad
ones; then every log, answer and command line is searched.
"""

import base64
import contextlib
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

Program = subprocess.Popen[Any]

# Special characters of URLs and of JSON, so that an encoded secret is found as well.
SECRETS: Mapping[str, str] = {
    "key": "a-shared-key/of+the-secrets-test",
    "admin_token": "an-admin-token/of+the-secrets-test",
    "agent_token": "an-agent-token/of+the-secrets-test",
    "read_token": "a-read-token/of+the-secrets-test",
    "state_password": "a-redis-password/of+the-secrets-test",
    "wrong_token": "a-token-that-somebody-mistyped/for-ours",
    "wrong_password": "a-redis-password/that+is-wrong",
}

CONFIG = "upstreams: {web: {peers: [{id: a, address: '10.0.0.1:80', baseline: 1}]}}\n"

ASKED = (
    "/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/service", "/v1/upstreams",
    "/v1/upstreams/web", "/v1/upstreams/web/declaration", "/v1/upstreams/web/weights",
    "/v1/upstreams/web/history", "/v1/upstreams/web/peers/a", "/v1/upstreams/web/peers/a/explain",
)  # fmt: skip


def forms(secret: str) -> set[bytes]:
    """Return a secret as it is, and in the forms of a URL, base64 and hexadecimal digits."""
    plain = secret.encode()
    # The same bytes in base64, at each offset in a longer text.
    in_base64 = {base64.b64encode(b"x" * shift + plain)[4 if shift else 0 : -4] for shift in range(3)}
    quoted = {urllib.parse.quote(secret, safe="").encode(), urllib.parse.quote_plus(secret).encode()}
    return {plain, plain.hex().encode(), *quoted, *in_base64}


def found_in(texts: Mapping[str, bytes]) -> list[str]:
    """Return the place of each secret that shows."""
    return [
        f"{name} in {where}"
        for where, text in texts.items()
        for name, secret in SECRETS.items()
        if any(form in text for form in forms(secret))
    ]


@dataclass
class Scene:
    """Programs under watch, with their logs and answers."""

    folder: Path
    programs: list[Program] = field(default_factory=list)
    said: dict[str, bytes] = field(default_factory=dict)
    lines: set[bytes] = field(default_factory=set)
    client: httpx.Client = field(default_factory=lambda: httpx.Client(trust_env=False, timeout=PATIENCE_S))

    def file(self, name: str) -> str:
        """Return the path of a file with a secret."""
        path = self.folder / name
        path.write_text(SECRETS[name] + "\n")
        path.chmod(0o600)
        return str(path)

    def start(self, name: str, *command: str, **environment: str) -> Program:
        """Start one of our programs; it ends with the test."""
        return self._start(subprocess.Popen, name, command, environment)

    def fork(self, name: str, *command: str, **environment: str) -> Program:
        """Fork one of our programs, which then has no command line of its own."""
        return self._start(warm_start.Popen, name, command, environment)

    def status(self, program: Program) -> int:
        """Wait for the end of one of our programs, and return its exit status."""
        self.watch()
        return program.wait(PATIENCE_S)

    def _start(
        self,
        popen: Callable[..., Program],
        name: str,
        command: tuple[str, ...],
        environment: dict[str, str],
    ) -> Program:
        with (self.folder / f"{name}.log").open("ab") as log:
            program = popen(
                [sys.executable, "-m", *command],
                stdout=log, stderr=log, env=clean() | environment,
            )  # fmt: skip
        self.programs.append(program)
        return program

    def ask(self, method: str, url: str, **options: object) -> int:
        """Send a request, keep the answer, and return its status; 0: there is no server."""
        try:
            answer = self.client.request(method, url, **options)  # type: ignore[arg-type]
        except httpx.HTTPError:
            return 0
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.said[f"{method} {url} {len(self.said)}"] = head.encode() + answer.content
        return answer.status_code

    def watch(self) -> None:
        """Keep the command lines of all programs, as every user of the machine sees them."""
        for program in self.programs:
            with contextlib.suppress(OSError):
                self.lines.add(Path(f"/proc/{program.pid}/cmdline").read_bytes())

    def texts(self) -> dict[str, bytes]:
        """Return all texts in which a secret could show."""
        logs = {path.name: path.read_bytes() for path in self.folder.glob("*.log")}
        return {**logs, **self.said, "command lines": b"\n".join(self.lines)}


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("STEELYARD_")}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    (tmp_path / "controller.yaml").write_text(CONFIG)
    yield made
    made.client.close()
    for program in made.programs:
        program.kill()
        program.wait()


@pytest.fixture
def locked_redis(tmp_path: Path) -> Iterator[Daemon]:
    """A Redis with a password in its file: its command line is none of our programs'."""
    port, file = free_port(), tmp_path / "redis.conf"
    file.write_text(
        f'bind 127.0.0.1\nport {port}\ndir {tmp_path}\nsave ""\nrequirepass {SECRETS["state_password"]}\n'
    )
    daemon = Daemon(["redis-server", str(file)], port, tmp_path / "redis.log")
    daemon.start()
    yield daemon
    daemon.kill()


def test_the_search_finds_a_secret_however_it_is_written() -> None:
    token = SECRETS["admin_token"]
    for text in (
        token,
        urllib.parse.quote(token, safe=""),
        token.encode().hex(),
        base64.b64encode(f"user:{token} ".encode()).decode(),
        base64.b64encode(f"u:{token}".encode()).decode(),
    ):
        assert found_in({"a log": f"so {text} it is".encode()}) == ["admin_token in a log"]


@pytest.mark.integration
@pytest.mark.timeout(300)  # A dozen Python processes.
def test_secrets_show_in_no_log_no_answer_and_no_process_list(
    scene: Scene, memcached: Daemon, locked_redis: Daemon
) -> None:
    ports = {name: free_port() for name in ("by-file", "by-environment")}
    urls = [f"http://127.0.0.1:{port}" for port in ports.values()]
    shared = (
        "steelyard_controller", "--config", str(scene.folder / "controller.yaml"), "--log-level", "debug",
        "--memcached", memcached.address, "--tick-s", "0.5", "--lease-s", "2",
    )  # fmt: skip
    redis = f"redis://127.0.0.1:{locked_redis.port}/0"
    names = ("admin_token", "agent_token", "read_token", "state_password")
    by_file = [
        part for name in ("key", *names) for part in (f"--{name.replace('_', '-')}-file", scene.file(name))
    ]
    by_environment = {f"STEELYARD_{name.upper()}": SECRETS[name] for name in ("key", *names[:3])}
    password = urllib.parse.quote(SECRETS["state_password"], safe="")
    by_environment["STEELYARD_STATE_URL"] = f"redis://:{password}@127.0.0.1:{locked_redis.port}/0"
    scene.start(
        "by-file",
        *shared,
        "--api-port",
        str(ports["by-file"]),
        "--state-url",
        redis,
        "--log-format",
        "json",
        *by_file,
    )
    scene.start("by-environment", *shared, "--api-port", str(ports["by-environment"]), **by_environment)
    reader = {"Authorization": f"Bearer {SECRETS['read_token']}"}
    wait_until(
        lambda: (
            [scene.ask("GET", f"{url}/v1/upstreams/web/weights", headers=reader) for url in urls]
            == [200, 200]
        ),
        lambda: "\n".join(log.read_text() for log in scene.folder.glob("by-*.log")),
    )

    agent = (
        "steelyard_agent", "--memcached", memcached.address, "--interval", "0.1", "--peer", "b", "--verbose",
        "--register", urls[0], "--address", "10.0.0.2:80",
    )  # fmt: skip
    files = ["--token-file", scene.file("agent_token"), "--key-file", scene.file("key")]
    scene.start("agent", *agent, *files)
    scene.fork("agent-with-a-wrong-token", *agent, "--token-file", scene.file("wrong_token"))
    wait_until(
        lambda: scene.ask("GET", f"{urls[1]}/v1/upstreams/web/peers/b", headers=reader) == 200,
        lambda: (scene.folder / "agent.log").read_text(),
    )
    wait_until(
        lambda: "token" in (scene.folder / "agent-with-a-wrong-token.log").read_text(),
        lambda: (scene.folder / "agent-with-a-wrong-token.log").read_text(),
    )

    admin, wrong = SECRETS["admin_token"], SECRETS["wrong_token"]
    for url in urls:
        for path in ASKED:
            for token in (admin, SECRETS["read_token"], wrong):
                scene.ask("GET", url + path, headers={"Authorization": f"Bearer {token}"})
        for header in (
            f"Bearer {wrong}",
            f"Basic {base64.b64encode(f'admin:{admin}'.encode()).decode()}",
            admin,
        ):
            assert scene.ask("GET", f"{url}/v1/upstreams", headers={"Authorization": header}) == 401
        # A token in a wrong place: a mistake that an answer must not make worse.
        for body in (b"{", b"\xff", b'{"state": "drain"}', b'{"state": "asleep"}'):
            headers = {"Authorization": f"Bearer {admin}", "Content-Type": "application/json"}
            assert scene.ask("PATCH", f"{url}/v1/upstreams/web/peers/a", headers=headers, content=body) in (
                200,
                400,
                422,
            )
    scene.watch()

    command = ("steelyard_controller.cli", "status", "--url", ",".join(urls))
    # The agent above and this command have shown that a file puts no secret into a command line, and the
    # controllers that neither way does.
    reading = scene.start("cli", *command, "--token-file", scene.file("read_token"))
    assert scene.status(reading) in (0, 1)
    assert scene.status(scene.fork("cli", *command, STEELYARD_TOKEN=wrong)) != 0
    secret_url = f"http://admin:{urllib.parse.quote(wrong, safe='')}@127.0.0.1:1"
    assert scene.status(scene.fork("cli-by-environment", *command[:2], STEELYARD_URL=secret_url)) == 2
    registering = (*agent[:-3], "--address", "10.0.0.2:80")
    assert scene.status(scene.fork("agent-by-environment", *registering, STEELYARD_AGENT_REGISTER=secret_url))

    # Redis with a wrong password, and with one that a URL cannot contain.
    port = str(free_port())
    badly = scene.fork(
        "wrong-password", *shared, "--api-port", port, "--state-url", redis, "--state-password-file",
        scene.file("wrong_password"),
    )  # fmt: skip
    wait_until(lambda: scene.ask("GET", f"http://127.0.0.1:{port}/readyz") == 503, lambda: "no answer")
    wait_until(
        lambda: "password" in (scene.folder / "wrong-password.log").read_text(),
        lambda: (scene.folder / "wrong-password.log").read_text(),
    )
    assert badly.poll() is None
    bad = f"redis://:{SECRETS['wrong_password']}@127.0.0.1:x/0"
    refused = scene.fork("bad-url", *shared, "--api-port", port, STEELYARD_STATE_URL=bad)
    assert refused.wait(PATIENCE_S) == 2

    locked_redis.kill()  # Causes tracebacks, if anything does.
    wait_until(
        lambda: "part=state" in (scene.folder / "by-environment.log").read_text(),
        lambda: (scene.folder / "by-environment.log").read_text(),
    )
    for url in urls:
        scene.ask("GET", f"{url}/readyz")
        scene.ask("GET", f"{url}/metrics", headers=reader)
    scene.watch()
    texts = scene.texts()
    talkers = ("by-file", "by-environment", "agent", "agent-with-a-wrong-token", "wrong-password", "bad-url")
    assert [name for name in talkers if not texts[f"{name}.log"]] == []
    assert found_in(texts) == []
