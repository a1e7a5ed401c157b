"""The whole agent of a node with an API server of recorded answers: its log, its metrics, and faults."""

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.pods_api_server import PodsApiServer, pod, pod_list, pods_api_server, refusal
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

UID = "0a1b2c3d-1111-4222-8333-444455556666"


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[PodsApiServer]:
    with pods_api_server(tmp_path / "account") as running:
        yield running


class Running:
    """An agent as the DaemonSet starts it, and its log."""

    def __init__(self, api: PodsApiServer, memcached: Daemon, folder: Path) -> None:
        self.port = free_port()
        self.key = folder / "key"
        self.key.write_text("a key of sixteen letters or more")
        self._log = folder / "agent.log"
        flags = ["--node", "node-1", "--service-account", str(api.folder), "--metrics", f":{self.port}"]
        flags += ["--key-file", str(self.key)]
        command = [sys.executable, "-m", "steelyard_agent", "--scope", "pods", "--interval", "0.2", *flags]
        with self._log.open("wb") as file:
            self.process = warm_start.Popen(
                [*command, "--memcached", memcached.address],
                stderr=file,
                env={**os.environ, **api.environment},
            )

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of a page; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def shows(self, line: str) -> bool:
        """Return whether a line is in its metrics."""
        return line in self.get("/metrics")[1].splitlines()

    def says(self, words: str, times: int = 1) -> bool:
        """Return whether these words are in its log, at least `times` times."""
        return self._log.read_text().count(words) >= times


@pytest.fixture
def agent(api: PodsApiServer, memcached: Daemon, tmp_path: Path) -> Iterator[Running]:
    api.body = pod_list(pod("web-1", UID))
    running = Running(api, memcached, tmp_path)
    yield running
    running.process.kill()
    running.process.wait()


def test_it_is_healthy_says_once_what_it_cannot_sample_and_ends_at_a_signal(agent: Running) -> None:
    eventually(lambda: agent.get("/healthz") == (200, "ok\n"), "it is healthy")
    eventually(lambda: agent.shows('steelyard_agent_pods{result="absent"} 1'), "the pod is known, and absent")
    assert agent.shows("steelyard_agent_api_server_up 1")
    eventually(lambda: agent.says("pod default/web-1: its control group cannot be found ("), "it is logged")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(PATIENCE_S) == 0
    assert agent.says("stopped by a signal; the pods go on")


def test_settings_that_are_read_again_while_the_api_server_refuses_lose_no_pod(
    agent: Running, api: PodsApiServer
) -> None:
    eventually(lambda: agent.shows('steelyard_agent_pods{result="absent"} 1'), "the pod is known")
    api.status, api.body = 403, refusal(403, "Forbidden", "pods is forbidden")
    eventually(
        lambda: agent.says("the ServiceAccount needs a ClusterRole with the right to list pods"),
        "it is logged",
    )
    agent.key.write_text("another key of sixteen letters or more")
    agent.process.send_signal(signal.SIGHUP)
    eventually(lambda: agent.says("sampling the pods of node node-1", times=2), "the new key is taken up")
    eventually(
        lambda: agent.says("its control group cannot be found (", times=2), "the pod is looked for again"
    )
    eventually(lambda: agent.shows("steelyard_agent_api_server_up 0"), "the API server still refuses")
    eventually(lambda: agent.shows('steelyard_agent_pods{result="absent"} 1'), "the pod is still known")


def test_without_a_node_it_ends_with_a_line_that_says_so(api: PodsApiServer) -> None:
    command = [sys.executable, "-m", "steelyard_agent", "--scope", "pods"]
    done = warm_start.run(command, env={**os.environ, **api.environment})
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "steelyard-agent: --scope pods needs --node NAME (in a pod from the downward API: spec.nodeName)\n"
    )
