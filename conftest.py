"""Real daemons for every distribution's integration tests: each on a free port, each ended after its test."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings

from testing import nginx_under_test

# Tests assert no wall-clock time, and this machine may be a busy one.
settings.register_profile("steelyard", deadline=None)
settings.load_profile("steelyard")

# Tests start Python some thousand times. Where an image has told it to keep no compiled code, each start
# would compile all that it imports again: more CPU time than everything else that these processes do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what it runs in the background with Ctrl-C ignored, and programs inherit that: the tests of
# what Ctrl-C does would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Long enough for a loaded machine; a daemon is usually there within 50 ms.
PATIENCE_S = 60.0

T = TypeVar("T")

# Ports that free_port has returned of late: whoever asked for one may not listen on it yet.
_given: deque[int] = deque(maxlen=1000)


def pytest_configure() -> None:
    """Put what is tested on PATH: before the tests are collected, since some ask nginx what it can do."""
    # Debian keeps nginx where only root's PATH looks.
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], "/usr/local/sbin", "/usr/sbin"])
    named = os.environ.get(nginx_under_test.VARIABLE)
    if named:
        try:
            nginx_under_test.put_on_path(named)
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file without the marks that `-m` demands: every worker imports all that it collects."""
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    # "integration and not long" demands the first; of any other expression nothing is concluded.
    demanded = [each for each in config.getoption("markexpr").split(" and ") if each.isidentifier()]
    text = collection_path.read_text(encoding="utf-8") if demanded else ""
    return True if any(f"pytest.mark.{mark}" not in text for mark in demanded) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why each test failed that was tried again (`make integration`), and passed or not."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session", autouse=True)
def _state_home_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    # A controller without an admin token keeps one of its own there.
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def wait_until(
    look: Callable[[], T | None],
    what: str | Callable[[], str] = "it did not happen",
    *,
    patience_s: float = PATIENCE_S,
) -> T:
    """Ask again and again until `look` finds something true, and return that; fail with `what` in the end."""
    deadline = time.monotonic() + patience_s
    while not (found := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not within {patience_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return found


def free_port(count: int = 1) -> int:
    """Return the first of `count` consecutive TCP ports of 127.0.0.1 that nothing used a moment ago.

    They lie below the range that outgoing connections take theirs from, so none is taken meanwhile. Each of
    pytest's workers has a part of its own: what one test stops and starts again is given to no other.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    part = 12_000 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for _ in range(1000):
        first = 20_000 + worker * part + random.randrange(part - count)
        ports = range(first, first + count)
        if not set(ports).isdisjoint(_given):
            continue
        try:
            for port in ports:
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        _given.extend(ports)
        return first
    raise RuntimeError(f"no {count} free ports in a row")


@dataclass
class Daemon:
    """A daemon under test; it can be killed and started again on the same port."""

    command: list[str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until its port answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"{self.command[0]} did not start:\n{self.log.read_text()}") from None
                time.sleep(0.02)

    def kill(self) -> None:
        """Kill it as the OOM killer would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _daemon(name: str, command: Callable[[int], list[str]], folder: Path) -> Iterator[Daemon]:
    if shutil.which(name) is None:
        pytest.fail(f"{name} is not installed: run `make setup-tests`")
    port = free_port()
    daemon = Daemon(command(port), port, folder / f"{name}.log")
    daemon.start()
    yield daemon
    daemon.kill()


@contextmanager
def memcached_in(folder: Path) -> Iterator[Daemon]:
    """Run a Memcached whose log is in a folder: for a fixture of another scope than `memcached`."""
    user = ["-u", "nobody"] if os.getuid() == 0 else []
    yield from _daemon(
        "memcached",
        lambda port: ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", *user],
        folder,
    )


@pytest.fixture
def memcached(tmp_path: Path) -> Iterator[Daemon]:
    """A Memcached of its own for the test."""
    with memcached_in(tmp_path) as one:
        yield one


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Daemon]:
    """A Redis of its own for the test, which keeps nothing."""
    yield from _daemon(
        "redis-server",
        lambda port: [
            "redis-server",
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--dir",
            str(tmp_path),
            "--save",
            "",
        ],
        tmp_path,
    )
