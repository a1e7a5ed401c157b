"""A daemon's life, with an idle process."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_resilience.stage.daemon import Daemon

PARENT = "echo ready $1; sleep 1000 & wait"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    part = Part(name="parent", host="here", command=("sh", "-c", PARENT, "sh"))
    made = Daemon(part, "127.0.0.1", (), tmp_path / "log")
    yield made
    made.kill()


def wait_for_child(daemon: Daemon) -> int:
    while not (children := daemon.children()):
        assert daemon.pid is not None, daemon.last_words()
    return children[0]


def is_there(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_dead_daemon_stays_dead_until_start(daemon: Daemon) -> None:
    assert (daemon.pid, daemon.children()) == (None, ())
    daemon.start("first")
    daemon.kill()
    assert daemon.pid is None
    assert daemon.why_not_running() == "parent does not run"
    daemon.start("second")
    wait_for_child(daemon)
    assert daemon.why_not_running() is None
    assert daemon.log.read_text().endswith("ready second\n")


def test_its_children_go_with_it(daemon: Daemon) -> None:
    daemon.start()
    child = wait_for_child(daemon)
    daemon.kill()
    assert not is_there(child)


def test_children_that_outlived_it_go_too(daemon: Daemon) -> None:
    daemon.start()
    child = wait_for_child(daemon)
    daemon.signal(signal.SIGKILL)
    while daemon.pid is not None:
        pass
    assert is_there(child)
    daemon.kill()
    assert not is_there(child)


def test_a_pause_shows_and_ends(daemon: Daemon) -> None:
    daemon.start()
    wait_for_child(daemon)
    daemon.pause()
    while (why := daemon.why_not_running()) is None:
        pass
    assert why.startswith("parent is stopped (process ")
    daemon.resume()
    while daemon.why_not_running():
        assert daemon.pid is not None


def test_a_paused_daemon_can_be_stopped(daemon: Daemon) -> None:
    daemon.start()
    wait_for_child(daemon)
    daemon.pause()
    daemon.stop()
    assert daemon.pid is None


def test_a_dead_daemon_refuses_signals_and_a_running_one_a_start(daemon: Daemon) -> None:
    with pytest.raises(ProgramError, match="parent does not run"):
        daemon.signal(signal.SIGHUP)
    with pytest.raises(ProgramError, match="parent does not run"):
        daemon.pause()
    daemon.resume()
    daemon.stop()
    daemon.start()
    with pytest.raises(ProgramError, match="parent runs already"):
        daemon.start()
