"""The demo server as it is run: its routes, its burners, its CPU limit and its end."""

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest
from steelyard_loadtest.cluster.processes import wait_ended
from steelyard_loadtest.machine.child_process import cpu_seconds
from steelyard_loadtest.server.work import MOST_LATE_S

from testing import warm_start
from testing.daemons import free_port
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

MODULE = [sys.executable, "-m", "steelyard_loadtest.server"]
LIMIT_CORES = 0.2

BURNT_S = 0.4  # 40 of the kernel's clock ticks
MEASURED_S = 3.0
V1_CPU = Path("/sys/fs/cgroup/cpu")

WITHOUT_GROUPS = ("unshare", "--mount", "sh", "-c", 'umount -lR /sys/fs/cgroup && exec "$@"', "sh")
"""As without root, and in many containers: no control group can be made."""


class Running:
    """A server of its own on a free port; its stderr is in a file."""

    def __init__(self, folder: Path, *flags: str, name: str = "server-1", within: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.log = folder / f"{name}-{self.port}.log"
        with self.log.open("w") as log:
            self.process = warm_start.Popen(
                [*within, *MODULE, "--name", name, "--port", str(self.port), *flags], stderr=log
            )
        self.seen = psutil.Process(self.process.pid)

    def wait_until_ready(self) -> "Running":
        wait_until(lambda: self.process.poll() is not None or self._answers())
        assert self.process.poll() is None, self.log.read_text()
        return self

    def request(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str, method: str = "GET") -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.request(path, method)[2])
        return document

    def cpu_seconds(self) -> float:
        """Return the CPU time of the server and its burners, which all still run."""
        times = [process.cpu_times() for process in [self.seen, *self.seen.children()]]
        return sum(used.user + used.system for used in times)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def _answers(self) -> bool:
        try:
            return self.request("/healthz")[0] == 200
        except OSError:
            return False


Start = Callable[..., Running]


def burning_share(server: Running) -> float:
    """Burn with two workers and return the CPU seconds used as a part of those allowed."""
    assert server.request("/burn?seconds=600&workers=2", "POST")[0] == 202
    wait_until(lambda: len(server.seen.children()) == 2)
    before_s, began_s = server.cpu_seconds(), time.monotonic()
    # On a busy machine they get less than their limit, and take longer for the same.
    wait_until(lambda: server.cpu_seconds() > before_s + BURNT_S)
    used_s, elapsed_s = server.cpu_seconds() - before_s, time.monotonic() - began_s
    return used_s / (LIMIT_CORES * elapsed_s)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers, and end them after the test."""
    started: list[Running] = []

    def start(*flags: str, **more: Any) -> Running:
        started.append(Running(tmp_path, *flags, **more))
        return started[-1].wait_until_ready()

    yield start
    for server in started:
        if server.process.poll() is None:
            server.end()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without a limit, for tests that only send requests."""
    running = Running(tmp_path_factory.mktemp("server")).wait_until_ready()
    yield running
    running.end()


@pytest.mark.parametrize("path", ["/", "/io", "/bytes", "/sleep?ms=0", "/healthz", "/nowhere"])
def test_every_answer_says_which_server_gave_it(server: Running, path: str) -> None:
    status, headers, _ = server.request(path)
    assert status == (404 if path == "/nowhere" else 200)
    assert headers["x-served-by"] == "server-1"


def test_work_gives_the_trace_of_a_product_that_differs_each_time(server: Running) -> None:
    first, second = server.json("/"), server.json("/")
    assert first["server"] == "server-1"
    assert 0 < first["trace"] < 20 * 20
    assert first["trace"] != second["trace"]


def test_a_request_may_ask_for_the_work_of_several(server: Running) -> None:
    assert server.json("/?work=20")["trace"] > 10 * server.json("/")["trace"]


def test_what_a_request_to_the_work_wants_echoed_comes_back_cut_to_a_numbers_length(server: Running) -> None:
    assert "echo" not in server.json("/")
    assert server.json("/?echo=12345")["echo"] == "12345"
    assert server.json(f"/?echo={'9' * 1000}")["echo"] == "9" * 64


def test_work_costs_the_server_cpu_that_healthz_tells(server: Running) -> None:
    before = server.json("/healthz")
    for _ in range(50):
        server.request("/")
    after = server.json("/healthz")
    assert after["cpu_seconds"] > before["cpu_seconds"]
    assert (after["status"], after["server"], after["cpu_limit_cores"]) == ("ok", "server-1", None)


def test_io_writes_as_many_bytes_as_asked_and_leaves_no_file(server: Running) -> None:
    answer = server.json("/io?bytes=3000000")
    assert answer["bytes"] == 3_000_000
    assert answer["disk_ms"] > 0
    assert [file.path for file in server.seen.open_files() if "log" not in file.path] == []


@pytest.mark.parametrize("size", [0, 1, 1024, 3_000_000])
def test_bytes_gives_a_body_of_exactly_that_length(server: Running, size: int) -> None:
    _, headers, body = server.request(f"/bytes?n={size}")
    assert len(body) == int(headers["content-length"]) == size
    assert headers["content-type"] == "application/octet-stream"


def test_sleep_is_late_without_using_cpu(server: Running) -> None:
    assert server.json("/sleep?ms=20") == {"server": "server-1", "slept_ms": 20}


@pytest.mark.parametrize(
    ("method", "path", "argument"),
    [
        ("GET", "/bytes?n=-1", "n"),
        ("GET", "/bytes?n=16777217", "n"),
        ("GET", "/sleep?ms=soon", "ms"),
        ("GET", "/sleep?ms=", "ms"),
        ("GET", "/io?bytes=0", "bytes"),
        ("POST", "/burn?seconds=0", "seconds"),
        ("POST", "/burn?workers=9", "workers"),
        ("POST", "/burn?seconds=5&workers=two", "workers"),
    ],
)
def test_a_bad_argument_is_a_400_that_names_it(
    server: Running, method: str, path: str, argument: str
) -> None:
    status, _, body = server.request(path, method)
    assert status == 400
    assert body.startswith(f"{argument} must be a whole number of ".encode())
    assert server.json("/healthz")["burners"] == 0


def test_burners_are_children_that_come_and_go(server: Running) -> None:
    status, _, body = server.request("/burn?seconds=60&workers=3", "POST")
    assert (status, json.loads(body)) == (202, {"server": "server-1", "seconds": 60, "workers": 3})
    assert len(server.seen.children()) == server.json("/healthz")["burners"] == 3
    assert server.json("/burn", "DELETE") == {"server": "server-1", "stopped": 3}
    assert server.seen.children() == []
    assert server.json("/burn", "DELETE")["stopped"] == 0


def test_a_second_burn_takes_the_place_of_the_first(server: Running) -> None:
    for workers in (3, 1):
        server.request(f"/burn?seconds=60&workers={workers}", "POST")
    assert len(server.seen.children()) == 1
    server.request("/burn", "DELETE")


def test_a_burner_ends_by_itself_when_its_time_is_up(server: Running) -> None:
    server.request("/burn?seconds=1&workers=1", "POST")
    wait_until(lambda: server.json("/healthz")["burners"] == 0)
    assert server.seen.children() == []


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [{"Host": "web"}, {"Host": "example.org:8101"}, {"X-Forwarded-For": "127.0.0.1"}, {"Via": "1.1 edge"}],
    ids=str,
)
def test_nobody_burns_from_elsewhere(server: Running, method: str, headers: dict[str, str]) -> None:
    status, _, body = server.request("/burn", method, headers)
    assert status == 403
    assert b"loopback" in body
    assert server.seen.children() == []


def test_it_fails_at_once_or_answers_late_for_a_while_but_stays_healthy(server: Running) -> None:
    assert server.request("/fail?seconds=60", "POST")[0] == 202
    assert server.request("/")[0] == 500
    assert server.json("/healthz")["status"] == "ok"
    assert server.request("/slow?seconds=60&ms=200", "POST")[0] == 202
    began_s = time.monotonic()
    assert server.request("/")[0] == 200
    assert time.monotonic() - began_s >= 0.2
    assert server.request("/fail", "DELETE")[0] == 200
    for path, method in (("/fail", "POST"), ("/fail", "DELETE"), ("/slow", "POST"), ("/cold", "POST")):
        assert server.request(path, method, {"Via": "1.1 somebody"})[0] == 403


def test_a_miss_of_its_cold_cache_is_work(server: Running) -> None:
    def cpu_s() -> float:
        before_s = float(str(server.json("/healthz")["cpu_seconds"]))
        assert [server.request("/")[0] for _ in range(5)] == [200] * 5
        return float(str(server.json("/healthz")["cpu_seconds"])) - before_s

    warm_s = cpu_s()
    assert server.request("/cold?entries=1000&times=100", "POST")[0] == 202
    assert cpu_s() > 5 * warm_s
    assert server.request("/fail", "DELETE")[0] == 200
    assert server.request("/cold?entries=0", "POST")[0] == 400


def test_get_does_not_burn(server: Running) -> None:
    assert server.request("/burn")[0] == 405


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda it: str(it.name))
def test_a_signal_ends_it_in_order_and_its_burners_with_it(start: Start, number: signal.Signals) -> None:
    server = start("--cpu-limit", str(LIMIT_CORES))
    server.request("/burn?seconds=60&workers=2", "POST")
    burners = server.seen.children()
    assert len(burners) == 2
    assert server.end(number) == 0
    assert wait_ended(burners, PATIENCE_S) == set()


def test_burners_end_when_the_server_is_killed(start: Start) -> None:
    server = start("--cpu-limit", str(LIMIT_CORES))
    server.request("/burn?seconds=60&workers=2", "POST")
    family = server.seen.children()
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    assert wait_ended(family, PATIENCE_S) == set()


def test_pauses_hold_the_burners_and_the_server_where_no_group_can_be_made(start: Start) -> None:
    within = WITHOUT_GROUPS if os.geteuid() == 0 else ()
    server = start("--cpu-limit", str(LIMIT_CORES), within=within)
    said = r"CPU limited to 0\.2 cores by \(no cgroup: (no cpu controller is mounted|not root)\) pauses\n"
    assert re.search(said, server.log.read_text())
    assert burning_share(server) < 1.5
    assert server.json("/healthz")["cpu_limit_cores"] == LIMIT_CORES
    server.request("/burn", "DELETE")
    began_s, before_s = time.monotonic(), server.json("/healthz")["cpu_seconds"]
    for _ in range(20):
        server.request("/?work=10")
    used_s = server.json("/healthz")["cpu_seconds"] - before_s
    # Some of the last answer's time is paid by the next; no machine is too slow for this bound.
    assert used_s < LIMIT_CORES * (time.monotonic() - began_s) + 0.1


def test_a_busy_wait_and_a_bounded_neighbour_use_their_parts_and_no_more(start: Start) -> None:
    server = start("--cpu-limit", str(LIMIT_CORES), "--limit-by", "pauses")

    def used(path: str) -> float:
        """Return the CPU seconds used as a part of those allowed, and check that the server works on."""
        assert server.request(path, "POST")[0] == 202
        wait_until(lambda: len(server.seen.children()) == 1)
        before_s, began_s = server.cpu_seconds(), time.monotonic()
        deadline_s = began_s + MEASURED_S
        while time.monotonic() < deadline_s:
            assert server.request("/")[0] == 200
            time.sleep(0.05)
        return (server.cpu_seconds() - before_s) / (LIMIT_CORES * (time.monotonic() - began_s))

    assert used("/spin?seconds=60") < 1.2
    (spinner,) = server.seen.children()
    assert os.sched_getscheduler(spinner.pid) == os.SCHED_IDLE
    spun_s = cpu_seconds(spinner.pid)
    assert spun_s is not None
    wait_until(lambda: (cpu_seconds(spinner.pid) or 0.0) > spun_s)
    # The neighbour has three tenths, and twenty requests a second need less than half.
    assert 0.1 < used("/burn?seconds=60&workers=1&percent=30") < 0.9
    assert server.request("/spin", "POST", {"Via": "1.1 somebody"})[0] == 403


@pytest.mark.skipif(not os.access(V1_CPU, os.W_OK), reason="no control group can be made here")
def test_a_cgroup_holds_the_server_and_its_burners_and_is_gone_at_the_end(start: Start) -> None:
    server = start("--cpu-limit", str(LIMIT_CORES))
    group = re.search(r"CPU limited to 0\.2 cores by cgroup (\S+)", server.log.read_text())
    assert group is not None, server.log.read_text()
    assert str(server.process.pid) in (Path(group[1]) / "cgroup.procs").read_text().split()
    assert burning_share(server) < 1.5
    assert server.end() == 0
    assert not Path(group[1]).exists()


def test_a_taken_port_is_one_line_and_status_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = warm_start.run([*MODULE, "--name", "server-1", "--port", str(port)])
    assert done.returncode == 1
    assert done.stderr == f"server-1: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


def test_an_address_of_another_machine_is_one_line_and_status_1() -> None:
    done = warm_start.run([*MODULE, "--name", "server-1", "--port", "0", "--host", "192.0.2.1"])
    assert done.returncode == 1
    assert re.fullmatch(r"server-1: cannot listen on 192\.0\.2\.1 port 0: [A-Z][a-z ]+\n", done.stderr)


def test_the_pid_file_is_there_while_it_runs_and_gone_after(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "server-1.pid"
    server = start("--pid-file", str(file))
    assert file.read_text() == f"{server.process.pid}\n"
    assert server.end() == 0
    assert not file.exists()


def test_with_a_delay_work_is_late_and_not_busy(start: Start) -> None:
    assert start("--delay-ms", "2.5").json("/") == {"server": "server-1", "slept_ms": 2.5}


def test_io_takes_the_emulated_disk_for_its_time(start: Start) -> None:
    # 500 ms from when it was asked for; the thread may wake late, and begin up to MOST_LATE_S behind.
    server = start("--disk-ops", "2")
    assert server.json("/io?bytes=1000")["disk_ms"] >= 500 - 1000 * MOST_LATE_S


def test_a_pool_of_workers_is_full_while_the_server_idles(start: Start) -> None:
    server = start("--workers", "2")
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.request, "/sleep?ms=1000") for _ in range(3)]
        wait_until(lambda: b"\ndemo_workers_busy 2\n" in server.request("/metrics")[2])
        assert server.request("/healthz")[0] == 200
        assert [done.result(PATIENCE_S)[0] for done in asked] == [200] * 3
    wait_until(lambda: b"\ndemo_workers_busy 0\n" in server.request("/metrics")[2])


def test_the_count_file_holds_the_answers_to_a_load(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "count"
    server = start("--count-file", str(file))
    for path in ("/", "/io", "/bytes", "/sleep?ms=0", "/sleep?ms=soon", "/healthz"):
        server.request(path)
    wait_until(lambda: int.from_bytes(file.read_bytes(), "little") == 5)


def test_answers_carry_the_agent_s_report_with_the_rate_while_there_is_one(
    start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "orca"
    server = start("--orca-file", str(file))
    assert "endpoint-load-metrics" not in server.request("/")[1]
    file.write_text("TEXT cpu_utilization=0.42\n")

    def carries_it() -> bool:
        report = server.request("/")[1].get("endpoint-load-metrics", "")
        return bool(re.fullmatch(r"TEXT cpu_utilization=0\.42,rps_fractional=\d+\.\d{3}", report))

    wait_until(carries_it)
    assert "endpoint-load-metrics" not in server.request("/healthz")[1]
