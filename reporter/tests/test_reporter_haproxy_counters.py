"""Real HAProxies of 3.0 and later, whose counters do not begin at 0 or do not tell the truth at first.

Debian 12 has HAProxy 2.6, where these tests are skipped. STEELYARD_HAPROXY names another.
"""

import contextlib
import itertools
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from steelyard_protocol.deadline import Deadline
from steelyard_reporter.haproxy.runtime_socket import RuntimeSocket
from steelyard_reporter.haproxy.show_stat import HaproxyFault, Process
from steelyard_reporter.haproxy.windows import Window, Windows

from testing.daemons import Daemon, free_port
from testing.handler_server import serving
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

LATENCY_S = 0.012
SERVERS = ("server-1", "server-2")
OLD_REQUESTS = 60
NEW_REQUESTS = 10

CONFIG = """
global
    stats socket {folder}/admin.sock mode 600 level admin
    {option}
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend www
    bind 127.0.0.1:{port} guid-prefix www-bind
    guid www
    default_backend web
backend web
    guid web
    balance roundrobin
    server server-1 127.0.0.1:{server} guid web-1
    server server-2 127.0.0.1:{server} guid web-2
"""


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(LATENCY_S)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Edge:
    """A HAProxy under a master process, and what the reporter makes of its counters."""

    def __init__(self, folder: Path, server: int, option: str) -> None:
        self._folder = folder
        self.port = free_port()
        path = folder / "haproxy.cfg"
        path.write_text(
            CONFIG.format(folder=folder, port=self.port, server=server, option=option.format(folder=folder))
        )
        command = ["haproxy", "-W", "-S", str(folder / "master.sock"), "-f", str(path)]
        self._daemon = Daemon(command, self.port, folder / "haproxy.log")
        self._clock_s = itertools.count(1.0)
        self._deadline = Deadline(time.monotonic)
        self._socket = RuntimeSocket(folder / "master.sock", self._deadline)
        self._windows = Windows(1.0)

    def start(self) -> None:
        """Start it, and take the first reading."""
        self._daemon.start()
        wait_until(lambda: self._workers() is not None)
        assert self.window() is None

    def stop(self) -> None:
        """Stop the master, which takes its workers with it."""
        assert self._daemon.process is not None
        self._daemon.process.terminate()
        try:
            self._daemon.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._daemon.kill()

    def window(self) -> Window | None:
        """Read the counters; return the window since the last reading, as if a second had passed."""
        self._deadline.start(PATIENCE_S)
        return self._windows.next(self._socket.read(["web"]), next(self._clock_s))

    def counts(self) -> dict[str, int]:
        """Return the number of completed requests in a window, by server."""
        window = self.window()
        assert window is not None
        assert window.broken is None
        return {name: figures.completed for name, figures in window.figures["web"].items()}

    def reload(self) -> None:
        """Replace the worker, and wait for the new one."""
        before = self._workers()
        assert self._daemon.process is not None
        self._daemon.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: (self._workers() or before) != before)

    def ask(self, command: str) -> str:
        """Ask the newest worker."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._folder / "admin.sock"))
            connection.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def total(self) -> int:
        """Return HAProxy's own count of both servers' requests."""
        rows = self.ask("show stat web 4 -1").splitlines()
        column = rows[0].removeprefix("# ").split(",").index("stot")
        return sum(int(row.split(",")[column]) for row in rows[1:] if row)

    def send(self, count: int, at_once: int = 8) -> None:
        """Send requests, each on its own connection."""
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: self.get(), range(count)))

    def get(self) -> None:
        """Send a request."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b" 200 " in b"".join(iter(lambda: connection.recv(65536), b""))

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Begin a request, so that its process outlives a reload; end it afterwards."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
            yield

    def _workers(self) -> list[int] | None:
        self._deadline.start(PATIENCE_S)
        try:
            processes: list[Process] = self._socket.read(["web"])
        except HaproxyFault:
            return None
        return [each.pid for each in processes if not each.ending] or None


Made = Callable[[tuple[int, int], str], Edge]


@pytest.fixture
def edge(tmp_path: Path) -> Iterator[Made]:
    """Return a function that starts a HAProxy with a line of `global`, if its version has that option."""

    def make(least: tuple[int, int], option: str) -> Edge:
        said = subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"version (\d+)\.(\d+)", said)
        assert version is not None, said
        if (int(version[1]), int(version[2])) < least:
            needs = ".".join(map(str, least))
            pytest.skip(f"needs HAProxy {needs} for `{option.split()[-2]}`: name one in STEELYARD_HAPROXY")
        made = Edge(tmp_path, port, option)
        stack.callback(made.stop)
        made.start()
        return made

    with serving(_Answer) as port, contextlib.ExitStack() as stack:
        yield make


def test_counts_of_a_stats_file_are_no_traffic(edge: Made, tmp_path: Path) -> None:
    one = edge((3, 0), "stats-file {folder}/stats")
    one.send(OLD_REQUESTS)
    assert sum(one.counts().values()) == OLD_REQUESTS
    (tmp_path / "stats").write_text(one.ask("dump stats-file"))
    with one.begun():
        one.reload()
        one.send(NEW_REQUESTS)
        assert one.total() == OLD_REQUESTS + NEW_REQUESTS, "HAProxy took no counts over: this shows nothing"
        # The process may have taken old counts over, so its first window has no figures.
        assert one.counts() == {}
        one.send(NEW_REQUESTS)
        assert sum(one.counts().values()) == NEW_REQUESTS


def test_processes_with_counters_in_shared_memory_count_once(edge: Made) -> None:
    one = edge((3, 3), f"expose-experimental-directives\n    shm-stats-file /steelyard-{free_port()}")
    one.send(OLD_REQUESTS)
    assert sum(one.counts().values()) == OLD_REQUESTS
    with one.begun():
        one.reload()
        one.send(NEW_REQUESTS)
        assert one.total() == OLD_REQUESTS + NEW_REQUESTS, "HAProxy shared no counters: this shows nothing"
        assert one.counts() == {}
        for _ in range(3):
            one.send(NEW_REQUESTS)
            assert sum(one.counts().values()) == NEW_REQUESTS


def test_thread_groups_give_no_latency_that_is_false(edge: Made) -> None:
    one = edge((3, 4), "nbthread 4\n    thread-groups 4")
    for _ in range(5):
        one.send(300, at_once=16)
        window = one.window()
        assert window is not None
        latencies = [figures.latency_ms for figures in window.figures["web"].values()]
        assert len(latencies) == len(SERVERS)
        # HAProxy's own mean is up to four times the truth from 512 requests on.
        assert all(each is None for each in latencies) or one.total() <= len(SERVERS) * 512
