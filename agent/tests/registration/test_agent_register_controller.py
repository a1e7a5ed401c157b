"""An agent registers its server with a real controller, as `docs/reference/agent.md` says."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

TOKENS = {
    "STEELYARD_ADMIN_TOKEN": "admin-token-of-the-test",
    "STEELYARD_AGENT_TOKEN": "agent-token-of-the-test",
}


@pytest.fixture
def controller(memcached: Daemon, tmp_path: Path) -> Iterator[Daemon]:
    """A controller without persistence, with an upstream without servers."""
    file, port = tmp_path / "controller.yaml", free_port()
    file.write_text("upstreams: {web: {peers: []}}\n")
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(file), "--api-port", str(port),
        "--memcached", memcached.address, "--state-url", "memory://", "--tick-s", "0.1",
    ]  # fmt: skip
    daemon = Daemon(command, port, tmp_path / "controller.log")
    yield daemon
    daemon.kill()


def ask(controller: Daemon, method: str = "GET", peer: str = "", **fields: object) -> Any:
    """Return the answer's JSON; None for a 404, and without a leader or listener."""
    request = urllib.request.Request(
        f"http://{controller.address}/v1/upstreams/web/peers{peer}",
        data=json.dumps(fields).encode() if fields else None,
        method=method,
        headers={"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        | ({"Authorization": f"Bearer {admin_token()}"} if method != "GET" else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code in {404, 503}:
            return None
        raise
    except OSError:
        return None


def declared(controller: Daemon) -> list[dict[str, Any]] | None:
    """Return the declared servers."""
    document = ask(controller)
    return None if document is None else list(document["peers"])


def admin_token() -> str:
    """Return the controller's admin token: the configured one, or the one that it made."""
    made = Path(os.environ["XDG_STATE_HOME"]) / "steelyard/admin_token"
    return os.environ.get("STEELYARD_ADMIN_TOKEN") or (made.read_text().strip() if made.exists() else "")


@contextmanager
def agent_of(
    controller: Daemon, memcached: Daemon, folder: Path, *flags: str, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [
        sys.executable, "-m", "steelyard_agent", "--peer", "server-1", "--memcached", memcached.address,
        "--interval", "0.1", "--scope", "host", "--config", str(folder / "agent.toml"),
        "--register", f"http://{controller.address}", *flags,
    ]  # fmt: skip
    with (folder / "agent.log").open("ab") as log:
        known = {"STEELYARD_AGENT_TOKEN": admin_token(), **os.environ, **environment}
        agent = warm_start.Popen(command, stderr=log, env=known)
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()


@pytest.mark.parametrize("tokens", [{}, TOKENS])
def test_an_agent_declares_its_server_and_leaves_a_drain_alone(
    controller: Daemon,
    memcached: Daemon,
    tmp_path: Path,
    tokens: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, token in tokens.items():
        monkeypatch.setenv(name, token)
    (tmp_path / "agent.toml").write_text('address = "auto:8080"\nbaseline = 2\n')
    controller.start()
    with agent_of(controller, memcached, tmp_path) as agent:
        peer = wait_until(lambda: next(iter(declared(controller) or []), None))
        assert (peer["id"], peer["address"], peer["baseline"]) == ("server-1", "127.0.0.1:8080", 2.0)
        assert ask(controller, "PATCH", "/server-1", state="drain", pin=25)["state"] == "drain"
        (tmp_path / "agent.toml").write_text('address = "auto:8081"\nbaseline = 3\n')
        agent.send_signal(signal.SIGHUP)

        def moved() -> dict[str, Any] | None:
            peer = next(iter(declared(controller) or []), None)
            return peer if peer is not None and peer["address"] == "127.0.0.1:8081" else None

        peer = wait_until(moved)
        assert (peer["baseline"], peer["state"], peer["pin"]) == (3.0, "drain", 25.0)


def test_a_controller_that_was_wiped_learns_the_server_again(
    controller: Daemon, memcached: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The agent starts first: it cannot have the token that a controller makes at its first start.
    monkeypatch.setenv("STEELYARD_ADMIN_TOKEN", TOKENS["STEELYARD_ADMIN_TOKEN"])
    (tmp_path / "agent.toml").write_text('address = "10.0.0.11:80"\n')
    with agent_of(controller, memcached, tmp_path) as agent:
        log = tmp_path / "agent.log"
        wait_until(lambda: "no controller registers it" in log.read_text())
        controller.start()
        wait_until(lambda: declared(controller))
        controller.kill()
        controller.start()
        wait_until(lambda: declared(controller) == [])
        agent.send_signal(signal.SIGHUP)  # or within half a minute
        wait_until(lambda: declared(controller))
        # The second text if its half a minute was over while there was no controller.
        messages = ("which had lost it", "is registered again")
        wait_until(lambda: any(words in log.read_text() for words in messages))


def test_an_agent_that_deregisters_is_gone_from_the_declaration(
    controller: Daemon, memcached: Daemon, tmp_path: Path
) -> None:
    (tmp_path / "agent.toml").write_text('address = "10.0.0.11:80"\nderegister = true\n')
    controller.start()
    with agent_of(controller, memcached, tmp_path) as agent:
        wait_until(lambda: declared(controller))
        agent.terminate()
        assert agent.wait() == 0
        wait_until(lambda: declared(controller) == [])


def test_a_refusal_is_told_in_the_controllers_words(
    controller: Daemon, memcached: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.toml").write_text('address = "10.0.0.11:80"\n')
    monkeypatch.setenv("STEELYARD_ADMIN_TOKEN", TOKENS["STEELYARD_ADMIN_TOKEN"])
    controller.start()
    log = tmp_path / "agent.log"
    wrong = "of-another-controller"
    with agent_of(controller, memcached, tmp_path, STEELYARD_AGENT_TOKEN=wrong):
        wait_until(lambda: "does not register it: it answers 401: " in log.read_text())
    assert wrong not in log.read_text()
    with agent_of(controller, memcached, tmp_path, "--upstream", "api", STEELYARD_AGENT_TOKEN=""):
        wait_until(lambda: "it answers 401: " in log.read_text().partition("401")[2])
