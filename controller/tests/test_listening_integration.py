"""`*` as the host of a listening socket: both families are answered."""

import socket
import urllib.request
from pathlib import Path

import pytest

from testing.daemons import free_port
from testing.waiting import PATIENCE_S

from .processes import controller

pytestmark = pytest.mark.integration


def test_a_host_of_everywhere_answers_both_families(tmp_path: Path) -> None:
    agent_check_port = free_port()
    flags = ("--api-host", "*", "--agent-check-host", "*", "--agent-check-port", str(agent_check_port))
    with controller(tmp_path, "--state-url", "memory://", *flags) as started:
        started.wait()
        port = started.url.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]"):
            with urllib.request.urlopen(f"http://{host}:{port}/healthz", timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            with socket.create_connection((host.strip("[]"), agent_check_port), PATIENCE_S) as asked:
                asked.sendall(b"web/server-1\n")
                assert b"unknown-upstream" in asked.makefile("rb").readline()
