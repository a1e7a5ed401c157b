"""The remains of closed connections, in a controller process without load."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

from .controllers import CONFIG

pytestmark = pytest.mark.integration

CONNECTIONS = 5

# A cycle is collected before there are this many new objects, however long that takes.
TELLS = """
import os, weakref
from asyncio import selector_events
from steelyard_controller import garbage

garbage.EVERY_S = 0.05
gone = open(os.environ["GONE"], "ab", buffering=0)
made = selector_events._SelectorSocketTransport.__init__

def noted(transport, *arguments, **named):
    made(transport, *arguments, **named)
    weakref.finalize(transport, gone.write, b"x").atexit = False

selector_events._SelectorSocketTransport.__init__ = noted
"""


@pytest.fixture
def gone(memcached: Daemon, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run a controller; yield its URL, and a file that has a byte for each collected connection."""
    (tmp_path / "controller.yaml").write_text(CONFIG)
    port, file = free_port(), tmp_path / "gone"
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(tmp_path / "controller.yaml"),
        "--memcached", memcached.address, "--state-url", "memory://", "--api-port", str(port),
    ]  # fmt: skip
    environment = os.environ | {warm_start.BEFORE: TELLS, "GONE": str(file)}
    with warm_start.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            yield f"http://127.0.0.1:{port}/healthz", file
        finally:
            process.kill()


def test_connections_that_have_closed_are_forgotten_before_many_more_come(gone: tuple[str, Path]) -> None:
    url, file = gone
    wait_until(lambda: answers(url), "the controller answers")
    before = len(file.read_bytes())
    for _ in range(CONNECTIONS):
        assert answers(url)
    wait_until(lambda: len(file.read_bytes()) >= before + CONNECTIONS, "the connections are forgotten")


def answers(url: str) -> bool:
    """Return whether it answers, on a connection of its own."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False
