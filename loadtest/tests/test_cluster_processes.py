"""The processes of a cluster: those recorded in its folder, while they run."""

import os
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.cluster.processes import holder, running, wait_ended

from testing.waiting import PATIENCE_S

PART = Part(name="redis", command=("redis-server",))


def test_a_process_that_stands_in_the_folder_is_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "redis.process").write_text(str(os.getpid()))
    found = running(PART, tmp_path)
    assert found is not None
    assert found.pid == os.getpid()


@pytest.mark.parametrize("noted", ["", "x", "0", str(2**31 - 1), "OURS"])
def test_a_number_that_is_nobody_s_or_somebody_else_s_is_no_part(tmp_path: Path, noted: str) -> None:
    (tmp_path / "redis.process").write_text(str(os.getpid()) if noted == "OURS" else noted)
    assert running(PART, tmp_path) is None


def test_what_was_never_started_does_not_run(tmp_path: Path) -> None:
    assert running(PART, tmp_path) is None


def test_a_process_whose_parent_has_not_reaped_it_has_ended() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        process = psutil.Process(child.pid)
        assert wait_ended([process], 0) == {process}
        process.send_signal(signal.SIGTERM)
        assert wait_ended([process], PATIENCE_S) == set()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_only_a_listener_holds_a_port(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("there is no IPv6 on this machine")
    with server:
        port = server.getsockname()[1]
        assert f"(pid {os.getpid()}: " in str(holder(port))
        with socket.create_connection((address, port)) as client:
            connected = client.getsockname()[1]
            assert holder(connected) is None
    assert holder(port) is None
