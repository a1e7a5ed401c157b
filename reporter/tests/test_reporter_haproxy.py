"""A real HAProxy, a real Memcached and the reporter's process: its reports and its commands."""

import contextlib
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import signature, traffic_report, weight_table, wire
from steelyard_protocol.traffic_report import TrafficReport
from steelyard_protocol.weight_table import State, TablePeer, WeightTable

from testing import warm_start
from testing.daemons import Daemon, free_port
from testing.handler_server import serving
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

MOST_ROUNDS = 50

KEY = b"0123456789abcdef0123456789abcdef"


DOCS = Path(__file__).parents[2] / "docs" / "guides" / "haproxy.md"

MORE = """
frontend db_in
    mode tcp
    bind 127.0.0.1:{tcp}
    default_backend db
backend db
    mode tcp
    balance roundrobin
    server server-1 127.0.0.1:{server} weight 100
    server server-2 127.0.0.1:{server} weight 100
"""


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(500 if self.path == "/500" else 200)
        # The response to /cut breaks off: it is closed after its header.
        self.send_header("Content-Length", "10" if self.path == "/cut" else "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Rig:
    """HAProxy with an HTTP and a TCP backend, and Memcached with their tables."""

    folder: Path
    memcached: Daemon
    server: int
    http: int = field(default_factory=free_port)
    tcp: int = field(default_factory=free_port)
    master: bool = False
    generation: int = 0
    haproxy: Daemon | None = None

    @property
    def pid_file(self) -> Path:
        """Return the file with HAProxy's first process."""
        return self.folder / "haproxy.pid"

    def start(self) -> Daemon:
        """Start HAProxy."""
        path = self.folder / "haproxy.cfg"
        documented = re.search(r"```haproxy\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
        assert documented is not None
        text = documented[1]
        sockets = [
            f"stats socket {self.folder}/{level}.sock mode 600 level {level}" for level in ("admin", "user")
        ]
        for old, new in (
            ("stats socket /run/haproxy/admin.sock mode 660 group haproxy level admin", "\n".join(sockets)),
            ("bind :8080", f"bind 127.0.0.1:{self.http}"),
            ("10.0.0.11:80", f"127.0.0.1:{self.server}"),
            ("10.0.0.12:80", f"127.0.0.1:{self.server}"),
        ):
            assert old in text, old
            text = text.replace(old, new)
        path.write_text(text + MORE.format(tcp=self.tcp, server=self.server))
        how = ["-W", "-S", str(self.folder / "master.sock")] if self.master else ["-db"]
        daemon = Daemon(
            ["haproxy", *how, "-f", str(path), "-p", str(self.pid_file)],
            self.http,
            self.folder / "haproxy.log",
        )
        daemon.start()
        wait_until(lambda: self.asked("show info").startswith("Name: HAProxy"))
        return daemon

    def stop(self) -> None:
        """Stop HAProxy; a master takes its workers with it."""
        assert self.haproxy is not None
        assert self.haproxy.process is not None
        self.haproxy.process.terminate()
        self.haproxy.process.wait(PATIENCE_S)

    def asked(self, command: str) -> str:
        """Ask HAProxy a question; return nothing if it does not run."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "admin.sock"))
            connection.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        return ""

    def pid(self) -> str | None:
        """Return the process that answers at the socket; None if none does."""
        line = re.search(r"^Pid: (\d+)$", self.asked("show info"), re.MULTILINE)
        return line[1] if line else None

    def connected(self) -> socket.socket:
        """Return a connection through the backend db."""
        return socket.create_connection(("127.0.0.1", self.tcp), timeout=PATIENCE_S)

    def begun(self) -> socket.socket:
        """Return a connection with a request that lacks its end."""
        connection = socket.create_connection(("127.0.0.1", self.http), timeout=PATIENCE_S)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
        return connection

    def publish(self, upstream: str = "web", key: bytes | None = None, **peers: tuple[int, State]) -> None:
        """Put a table into Memcached: by name the weight and the state."""
        self.generation += 1
        table = WeightTable(
            upstream=upstream,
            term=1,
            generation=self.generation,
            issued_at_ms=int(1000 * time.time()),
            law="steelyard",
            picker="vnswrr2",
            peers=tuple(
                TablePeer(
                    id=name.replace("_", "-"),
                    address=f"127.0.0.1:{self.server}",
                    weight=weight,
                    baseline=500,
                    state=state,
                )
                for name, (weight, state) in peers.items()
            ),
        )
        text = weight_table.encode(table)
        client = Client(("127.0.0.1", self.memcached.port))
        client.set(
            wire.weights_key(upstream), text if key is None else signature.sign(key, text), noreply=False
        )
        client.close()

    def reported(self, upstream: str = "web", key: bytes | None = None) -> TrafficReport | None:
        """Return the report in Memcached."""
        client = Client(("127.0.0.1", self.memcached.port))
        value = client.get(wire.traffic_key(upstream, "edge-1"))
        client.close()
        if value is None:
            return None
        report = signature.read(key, value, traffic_report.decode)
        assert isinstance(report, TrafficReport), report
        return report

    def row(self, server: str) -> tuple[str, str] | None:
        """Return weight and status of a server of the backend web; None if it is missing."""
        header, *rows = self.asked("show stat web 4 -1").removeprefix("# ").splitlines() or [""]
        columns = header.split(",")
        for row in rows:
            cells = dict(zip(columns, row.split(","), strict=False))
            if cells.get("svname") == server:
                return cells["uweight"], cells["status"]
        return None

    def get(self, path: str = "/") -> None:
        """Send a request through HAProxy, on its own connection."""
        with socket.create_connection(("127.0.0.1", self.http), timeout=PATIENCE_S) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            while connection.recv(65536):
                pass

    @contextlib.contextmanager
    def reporter(self, *flags: str, socket: str = "admin.sock", key: bytes | None = None) -> Iterator[Path]:
        """Run the reporter; yield its log."""
        log = self.folder / "reporter.log"
        command = [
            sys.executable, "-m", "steelyard_reporter", "haproxy", "--lb", "edge-1", "--interval", "0.2",
            "--memcached", self.memcached.address, "--socket", str(self.folder / socket), *flags,
        ]  # fmt: skip
        environment = {} if key is None else {"STEELYARD_REPORTER_KEY": key.decode()}
        with log.open("ab") as output:
            process = warm_start.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            yield log
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0, log.read_text()


@pytest.fixture(params=[False])
def rig(memcached: Daemon, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """Yield the rig with a running HAProxy, under a master process if the parameter says so."""
    with serving(_Answer) as port:
        made = Rig(tmp_path, memcached, port, master=request.param)
        made.haproxy = made.start()
        yield made
        made.stop()


class Reports:
    """Sums the reports of one upstream, each once."""

    def __init__(self, rig: Rig, upstream: str = "web") -> None:
        self._rig, self._upstream = rig, upstream
        self._seqs: set[int] = set()
        self.completed: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.last: TrafficReport | None = None

    def look(self) -> "Reports":
        """Add the present report, if it is new."""
        report = self._rig.reported(self._upstream)
        if report is not None and report.seq not in self._seqs:
            self._seqs.add(report.seq)
            self.last = report
            for name, completed, failed in zip(report.ids, report.completed, report.failed, strict=True):
                self.completed[name] = self.completed.get(name, 0) + completed
                self.failed[name] = self.failed.get(name, 0) + failed
        return self

    def seen(self, server: str) -> bool:
        """Return whether some of a server's requests were completed, and some failed."""
        return self.completed.get(server, 0) > 0 and self.failed.get(server, 0) > 0

    def next(self) -> None:
        """Wait for another report than the last one."""
        seq = None if self.last is None else self.last.seq
        self.until(lambda seen: seen.last is not None and seen.last.seq != seq)

    def until(self, condition: Callable[["Reports"], bool]) -> None:
        """Look until a condition holds for them."""
        wait_until(lambda: condition(self.look()), lambda: f"{self.completed} {self.failed}")


# On a busy machine a window may be too long to be reported, and its traffic is lost. So requests are sent
# until some of each kind were reported. The reports never have more requests than were sent.


def test_requests_are_reported_by_server_as_nginx_does(rig: Rig) -> None:
    rig.publish(server_1=(500, "up"), server_2=(500, "up"))
    with rig.reporter():
        reports, sent = Reports(rig), 0
        while not all(reports.look().seen(name) for name in ("server-1", "server-2")):
            for path in ("/", "/", "/", "/500", "/500"):
                rig.get(path)
            sent += 1
            reports.next()
            assert sent < MOST_ROUNDS, reports
        assert sum(reports.completed.values()) <= 3 * sent
        assert sum(reports.failed.values()) <= 2 * sent

        # Two reports, so that the requests until now are in none of the later ones.
        reports.next()
        reports.next()
        completed, failed = sum(reports.completed.values()), sum(reports.failed.values())
        while (broken_off := sum(reports.look().failed.values()) - failed) == 0:
            for _ in range(10):
                rig.get("/cut")
            reports.next()
        # One whose header came before a reading, and whose end came after it, is in both.
        assert sum(reports.completed.values()) - completed < broken_off / 2


def test_connections_are_reported_in_tcp_once_they_have_ended(rig: Rig) -> None:
    rig.publish("shop", server_1=(500, "up"), server_2=(500, "up"))
    with rig.reporter("--upstreams", "shop=db"):
        reports = Reports(rig, "shop")
        for made in range(1, MOST_ROUNDS):
            with rig.connected(), rig.connected():
                reports.until(lambda seen: seen.last is not None and list(seen.last.in_flight) == [1, 1])
                assert sum(reports.completed.values()) <= 2 * (made - 1)
            reports.until(lambda seen: seen.last is not None and list(seen.last.in_flight) == [0, 0])
            if len([count for count in reports.completed.values() if count]) == 2:
                break
        assert all(1 <= count <= made for count in reports.completed.values())
        assert sum(reports.failed.values()) == 0


def test_weights_states_and_servers_follow_the_table(rig: Rig) -> None:
    rig.publish(server_1=(900, "up"), server_2=(100, "up"))
    with rig.reporter("--set-weights", "--add-servers", ""):
        wait_until(lambda: rig.row("server-1") == ("180", "UP"), lambda: str(rig.row("server-1")))
        wait_until(lambda: rig.row("server-2") == ("20", "UP"))
        rig.publish(server_1=(500, "drain"), server_2=(500, "down"), server_3=(500, "up"))
        wait_until(lambda: rig.row("server-1") == ("100", "DRAIN"))
        wait_until(lambda: rig.row("server-2") == ("100", "MAINT"))
        wait_until(lambda: rig.row("server-3") == ("100", "no check"))
        rig.publish(server_1=(500, "up"), server_2=(500, "up"))
        wait_until(lambda: rig.row("server-1") == ("100", "UP"))
        wait_until(lambda: rig.row("server-2") == ("100", "UP"))
        wait_until(lambda: rig.row("server-3") is None, lambda: str(rig.row("server-3")))


def test_without_the_right_or_the_names_nothing_moves_and_the_log_says_what_to_do(rig: Rig) -> None:
    rig.publish(server_1=(900, "up"), server_2=(100, "up"))
    with rig.reporter("--set-weights", socket="user.sock") as log:
        wait_until(lambda: "level admin" in log.read_text())
        wait_until(rig.reported)
    rig.publish(web_1=(900, "up"), web_2=(100, "up"))
    with rig.reporter("--set-weights", "--add-servers", "") as log:
        wait_until(lambda: "write the declared names behind `server`" in log.read_text())
    wait_until(lambda: rig.row("server-1") == ("100", "UP"))  # its checks may be late
    assert rig.row("web-1") is None


def test_reports_and_tables_are_signed(rig: Rig) -> None:
    rig.publish(server_1=(900, "up"), server_2=(100, "up"))
    with rig.reporter("--set-weights", key=KEY) as log:
        wait_until(lambda: "refused (unsigned)" in log.read_text())
        wait_until(lambda: rig.row("server-1") == ("100", "UP"))  # its checks may be late
        rig.publish(key=KEY, server_1=(900, "up"), server_2=(100, "up"))
        wait_until(lambda: rig.row("server-1") == ("180", "UP"))
        wait_until(lambda: rig.reported(key=KEY))


def test_a_restarted_haproxy_gets_its_weights_again_and_its_counts_begin_anew(rig: Rig) -> None:
    rig.publish(server_1=(900, "up"), server_2=(100, "up"))
    with rig.reporter("--set-weights") as log:
        wait_until(lambda: rig.row("server-1") == ("180", "UP"))
        for _ in range(50):
            rig.get()
        rig.stop()
        wait_until(lambda: "no traffic reports" in log.read_text())
        rig.haproxy = rig.start()
        wait_until(lambda: rig.row("server-1") == ("180", "UP"))
        reports = Reports(rig)
        wait_until(rig.reported)
        reports.look()
        before, sent = sum(reports.completed.values()), 0
        while sum(reports.look().completed.values()) == before:
            rig.get()
            sent += 1
            reports.next()
            assert sent < MOST_ROUNDS, reports
        assert sum(reports.completed.values()) <= before + sent


@pytest.mark.parametrize("rig", [True], indirect=True)
def test_through_the_master_what_a_replaced_process_finishes_is_reported(rig: Rig) -> None:
    rig.publish(server_1=(900, "up"), server_2=(100, "up"))
    with rig.reporter("--set-weights", socket="master.sock"), contextlib.ExitStack() as stack:
        reports = Reports(rig)
        reports.until(lambda seen: seen.last is not None)
        begun = [stack.enter_context(rig.begun()) for _ in range(20)]
        before = rig.pid()
        assert rig.haproxy is not None
        assert rig.haproxy.process is not None
        rig.haproxy.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: rig.pid() not in (None, before))
        wait_until(lambda: rig.row("server-1") == ("180", "UP"))
        # The replaced process has the others to wait for, and the new one no request at all.
        while not sum(reports.look().completed.values()):
            connection = begun.pop()
            connection.sendall(b"\r\n")
            assert b" 200 " in connection.recv(1000)
            reports.next()
            reports.next()
        wait_until(lambda: rig.row("server-1") == ("180", "UP"))  # its checks may be late
