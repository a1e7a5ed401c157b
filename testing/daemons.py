"""Real daemons for integration tests: each on a free port, and ended after its test."""

import os
import random
import shutil
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from testing import warm_start
from testing.waiting import PATIENCE_S

# First and last port of tests. `make` gives different ones to runs of pytest beside each other: a daemon that
# restarts must find its port free.
PORTS = os.environ.get("STEELYARD_TESTS_PORTS", "20000-25999")

# Ports that free_port has returned lately. Their users may not listen yet.
_given: deque[int] = deque(maxlen=1000)


def free_port(count: int = 1) -> int:
    """Return the first of `count` consecutive free TCP ports of 127.0.0.1.

    They lie below the range of outgoing connections, so none is taken meanwhile. Each of pytest's workers has
    its own part, so no other test gets the port of a daemon that restarts.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    lowest, highest = map(int, PORTS.split("-"))
    part = (highest - lowest + 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    for _ in range(1000):
        first = lowest + worker * part + random.randrange(part - count)
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


def listens(port: int) -> bool:
    """Return whether a port of loopback accepts connections."""
    # Not create_connection: its look-up of the address takes as long as the rest.
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Daemon:
    """A daemon under test; it can be killed and started again on the same port."""

    command: list[str]
    port: int
    log: Path
    environment: dict[str, str] | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until its port answers."""
        with self.log.open("ab") as log:
            self.process = warm_start.Popen(self.command, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + PATIENCE_S
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{self.command[0]} did not start:\n{self.log.read_text()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill it, as the OOM killer would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def _running(folder: Path, port: int, name: str, *arguments: str) -> Iterator[Daemon]:
    if shutil.which(name) is None:
        pytest.fail(f"{name} is not installed: run `make setup-tests`")
    daemon = Daemon([name, *arguments], port, folder / f"{name}.log")
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.kill()


def memcached_in(folder: Path, *arguments: str) -> AbstractContextManager[Daemon]:
    """Run a Memcached with its log in a folder, for fixtures of another scope than `memcached`."""
    port = free_port()
    more = (*arguments, "-u", "nobody") if os.getuid() == 0 else arguments
    return _running(folder, port, "memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", *more)


def redis_in(folder: Path) -> AbstractContextManager[Daemon]:
    """Run a Redis without persistence, with its log in a folder."""
    port, at = free_port(), ["--bind", "127.0.0.1", "--port"]
    return _running(folder, port, "redis-server", *at, str(port), "--dir", str(folder), "--save", "")
