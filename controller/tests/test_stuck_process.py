"""Controller processes with a loop that hangs or breaks: they report it, and end on request or alone."""

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

import pytest

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S, wait_until

from .controllers import CONFIG

pytestmark = pytest.mark.integration

HANGS = """
import time
from steelyard_controller.tick.cycle import Cycle
Cycle.observe = lambda *_, **__: time.sleep(3600)
"""
BREAKS = """
from steelyard_protocol.clock_phase import Pace
Pace.next = lambda *_: 1 / 0
"""


@contextmanager
def controller(fault: str, memcached: Daemon, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a controller with a fault in its code; yield the process and the API's URL."""
    (folder / "controller.yaml").write_text(CONFIG)
    port = free_port()
    command = [
        sys.executable, "-m", "steelyard_controller", "--config", str(folder / "controller.yaml"),
        "--memcached", memcached.address, "--state-url", "memory://", "--api-port", str(port),
        "--tick-s", "0.1", "--lease-s", "0.5",
    ]  # fmt: skip
    environment = os.environ | {warm_start.BEFORE: fault}
    with warm_start.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def answer(url: str) -> tuple[int, str]:
    """Return status and detail of an answer; 0: there is no server."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["detail"]
    except OSError:
        return 0, ""


def test_a_tick_that_hangs_makes_the_process_unhealthy_and_sigterm_ends_it(
    memcached: Daemon, tmp_path: Path
) -> None:
    with controller(HANGS, memcached, tmp_path) as (process, url):
        wait_until(lambda: answer(f"{url}/healthz")[0] == 503, "the process calls itself dead")
        assert "made no progress" in answer(f"{url}/healthz")[1]
        assert answer(f"{url}/readyz")[0] == 503
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert "ticks do not end; the process ends without them" in log


def test_a_fault_that_nobody_foresaw_ends_the_process_with_a_line(memcached: Daemon, tmp_path: Path) -> None:
    with controller(BREAKS, memcached, tmp_path) as (process, _):
        _, log = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert "the controller ends because of an unexpected error" in log
        assert "ZeroDivisionError" in log
