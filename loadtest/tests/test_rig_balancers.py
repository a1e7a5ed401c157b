"""Every balancer of a comparison, by its real program, in front of counting servers."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import psutil
import pytest
from pymemcache.client.base import Client
from steelyard_loadtest.machine import find_programs, http_ask
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.rig.balancers import Balancer, why_missing
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies.haproxy import HAProxy
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.scenario.definition import Load, Scenario, Server
from steelyard_protocol import sample_record, wire
from steelyard_protocol.sample_record import SampleRecord

from testing.daemons import Daemon, free_port
from testing.handler_server import Prompt
from testing.meanwhile import meanwhile
from testing.own_processes import own_descendants
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = ("server-1", "server-2", "server-3")
# Ours, and HAProxy with our agent-check, have further tests, which look for the same.
FAMILIES = (
    "nginx-rr",
    "haproxy-roundrobin",
    "haproxy-steelyard",
    "haproxy-tcp",
    "envoy-round_robin",
    "envoy-steelyard",
    "nginx-mainline-least_conn",
    "traefik-p2c",
    "caddy-least_conn",
)
SCENARIO = Scenario(
    name="three",
    title="",
    what="",
    source="",
    path="/",
    static=False,
    servers=tuple(Server(name=name, cpu_cores=None, weight=1) for name in NAMES),
    load=Load(
        generator="wrk", levels=(1,), of_capacity=False, seconds=1, repeats=1, warm_up_s=0, cool_down_s=0
    ),
    events=(),
    algorithms=(),
    quick=True,
)


class Web(Prompt, ThreadingTCPServer):
    """A server that answers with its name, and sends the load report it was given."""

    # Not http.server's: that takes several times as long for a request.
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, name: str) -> None:
        self.name = name
        self.report = ""
        self.answered_s: deque[float] = deque()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def answered_lately(self) -> int:
        """Count an answer; return how many there were in the last second."""
        now_s = time.monotonic()
        self.answered_s.append(now_s)
        while self.answered_s[0] < now_s - 1:
            self.answered_s.popleft()
        return len(self.answered_s)


class _Handler(StreamRequestHandler):
    disable_nagle_algorithm = True
    server: Web

    def handle(self) -> None:
        # A proxy may leave at any time.
        with contextlib.suppress(OSError):
            while self._answer():
                pass

    def _answer(self) -> bool:
        """Answer a request without a body; return whether the connection goes on."""
        head = self.rfile.readline().lower()
        while head and (line := self.rfile.readline().lower()) not in (b"\r\n", b""):
            head += line
        if not head:
            return False
        lately, report = self.server.answered_lately(), self.server.report
        load = f"endpoint-load-metrics: TEXT {report},rps_fractional={lately}\r\n" if report else ""
        name = self.server.name
        text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(name)}\r\n{load}\r\n{name}"
        self.wfile.write(text.encode())
        return b"http/1.0\r\n" not in head and b"\r\nconnection: close\r\n" not in head


@pytest.fixture
def webs() -> Iterator[Mapping[str, Web]]:
    """Three servers."""
    with contextlib.ExitStack() as stack:
        running = {name: stack.enter_context(Web(name)) for name in NAMES}
        for web in running.values():
            threading.Thread(target=web.serve_forever, daemon=True).start()
            stack.callback(web.shutdown)
        yield running


@cache
def programs() -> Programs:
    """Return the programs of this machine."""
    return find_programs.find(None)


def at(folder: Path, memcached: int = 1, redis: int = 1) -> Place:
    return Place(
        folder=folder,
        checkout=CHECKOUT,
        programs=programs(),
        memcached_port=memcached,
        redis_port=redis,
        balancer_port=free_port(),
        api_port=free_port(),
        follow_port=free_port(),
        server_ports=(),
    )


@pytest.fixture
def place(tmp_path: Path, memcached: Daemon, redis_server: Daemon) -> Place:
    """A place with a Memcached and a Redis."""
    return at(tmp_path, memcached.port, redis_server.port)


def before(webs: Mapping[str, Web], algorithm: str, place: Place, scenario: Scenario = SCENARIO) -> Balancer:
    addresses = {server.name: webs[server.name].address for server in scenario.servers}
    return Balancer(BY_NAME[algorithm], scenario, addresses, place)


def get(url: str) -> str:
    """Return the name of the server that answered a request on a new connection."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.decode().partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 "), answer
    return body


def answers(url: str, count: int) -> Counter[str]:
    return Counter(get(url) for _ in range(count))


def loses_no_request(balancer: Balancer, *, but: int = 0) -> None:
    """Let servers leave and join while requests come; fail if more than `but` of them are lost."""
    lost: list[object] = []
    over = threading.Event()

    def visit(url: str) -> None:
        while not over.wait(0.005):
            try:
                get(url)
            except (OSError, AssertionError) as error:
                lost.append(error)

    balancer.check()
    assert set(answers(balancer.urls[0], 30)) == set(NAMES)
    visitor = threading.Thread(target=visit, args=(balancer.urls[0],))
    visitor.start()
    try:
        balancer.set_members(["server-2"])
        wait_until(lambda: set(answers(balancer.urls[0], 20)) == {"server-2"})
        balancer.set_members(NAMES)
        wait_until(lambda: set(answers(balancer.urls[0], 20)) == set(NAMES))
    finally:
        over.set()
        visitor.join()
    assert len(lost) <= but, lost
    assert (balancer.cpu_s() or 0) > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_it_answers_loses_no_request_when_servers_leave_and_join_and_is_gone_afterwards(
    name: str, webs: Mapping[str, Web], place: Place
) -> None:
    if why := why_missing(BY_NAME[name], programs()):
        pytest.skip(why)
    children = own_descendants()
    with before(webs, name, place) as balancer:
        # Caddy may close the visitor's connection at each of the two changes:
        # findings/caddy-reload-loses-new-connections.sh
        loses_no_request(balancer, but=2 if name.startswith("caddy-") else 0)
    assert own_descendants() <= children


@pytest.mark.parametrize("name", ["nginx-least_conn-8", "steelyard-8-shared"])
def test_several_balancers_are_as_many_processes_each_of_which_answers(
    name: str, webs: Mapping[str, Web], place: Place
) -> None:
    several = replace(place, more_balancer_ports=tuple(free_port() for _ in range(7)))
    children = own_descendants()
    with before(webs, name, several) as balancer:
        balancer.check()
        assert len(set(balancer.urls)) == len(balancer.fronts) == 8
        for url in balancer.urls:
            assert set(answers(url, 30)) == set(NAMES)
        if name == "steelyard-8-shared":
            # On a busy machine some are late at any moment; all know of each other all the same.
            wait_until(
                lambda: {exchange(url) for url in balancer.urls} in ({("on", 8)}, {("on", 8), ("late", 8)})
            )
    assert own_descendants() <= children


def test_another_kind_of_balancer_runs_beside_and_is_not_measured(
    webs: Mapping[str, Web], place: Place
) -> None:
    two = replace(place, more_balancer_ports=(free_port(),))
    children = own_descendants()
    addresses = {name: f"127.0.0.1:{web.server_address[1]}" for name, web in webs.items()}
    scenario = replace(SCENARIO, beside="nginx-rr")
    with Balancer(BY_NAME["haproxy-leastconn"], scenario, addresses, two) as balancer:
        balancer.check()
        assert [url.rpartition(":")[2] for url in balancer.urls] == [
            str(port) for port in (two.balancer_port, *two.more_balancer_ports)
        ]
        assert [type(front) for front in balancer.fronts] == [HAProxy]
        for url in balancer.urls:
            assert set(answers(url, 30)) == set(NAMES)
        balancer.set_members(["server-2"])
        for url in balancer.urls:
            wait_until(partial(only_second, url))
    assert own_descendants() <= children


def only_second(url: str) -> bool:
    return set(answers(url, 20)) == {"server-2"}


def exchange(url: str) -> tuple[str, int]:
    """Ask a balancer of ours for its exchange and the balancers in it; only requests update them."""
    answers(url, 3)
    document = http_ask.look("127.0.0.1", int(url.rpartition(":")[2]), "/steelyard/status")
    assert document is not None
    shared = document["share_in_flight"]
    return shared["state"], shared["balancers"]


def test_without_a_balancer_the_first_server_answers(webs: Mapping[str, Web], tmp_path: Path) -> None:
    with before(webs, "direct", at(tmp_path)) as balancer:
        assert answers(balancer.urls[0], 3) == {"server-1": 3}
        assert balancer.cpu_s() is None
        balancer.check()


def test_somebody_must_take_part(webs: Mapping[str, Web], tmp_path: Path) -> None:
    balancer = before(webs, "direct", at(tmp_path))
    for wrong in ([], ["server-9"]):
        with pytest.raises(ValueError, match="some of server-1, server-2, server-3 must take part"):
            balancer.set_members(wrong)


def test_nginx_s_cpu_time_outlives_the_workers_that_a_reload_ends(
    webs: Mapping[str, Web], tmp_path: Path
) -> None:
    with before(webs, "nginx-rr", at(tmp_path)) as balancer:
        answers(balancer.urls[0], 1500)
        earlier = balancer.cpu_s() or 0
        (old,) = workers(balancer)
        balancer.set_members(["server-1"])
        wait_until(lambda: old not in workers(balancer))
        # The kernel keeps an ended process's user and system time in hundredths.
        assert (balancer.cpu_s() or 0) > earlier - 0.02
        assert earlier > 0.04


def workers(balancer: Balancer) -> list[int]:
    assert balancer.fronts
    return balancer.fronts[0].process.workers()


def shares(place: Place) -> dict[str, float]:
    """Return our controller's published table."""
    _, body = http_ask.ask("127.0.0.1", place.api_port, "/v1/upstreams/web/weights")
    weights = {peer["id"]: peer["weight"] for peer in json.loads(body)["peers"] if peer["state"] == "up"}
    return {name: weights.get(name, 0) / sum(weights.values()) for name in NAMES}


def test_ours_loses_no_request_and_its_controller_begins_from_nothing_and_is_reported_when_it_dies(
    webs: Mapping[str, Web], place: Place
) -> None:
    children = own_descendants()
    for is_first in (True, False):  # the second one finds nothing of the first
        with before(webs, DEFAULT, place) as balancer:
            assert shares(place) == pytest.approx(dict.fromkeys(NAMES, 1 / 3), abs=0.01)
            if is_first:
                loses_no_request(balancer)
            balancer.set_members(["server-1", "server-3"])
            wait_until(lambda: shares(place)["server-2"] == 0.0)
            (controller,) = (
                child
                for child in psutil.Process().children()
                if "steelyard_controller" in " ".join(child.cmdline())
            )
            controller.kill()
            controller.wait(PATIENCE_S)
            wait_until(partial(reported, balancer))
        assert own_descendants() <= children


def reported(balancer: Balancer) -> bool:
    """Return whether `check` raises an error."""
    with contextlib.suppress(ProgramError):
        balancer.check()
        return False
    return True


def agents(port: int, cpu: Mapping[str, float]) -> contextlib.AbstractContextManager[None]:
    """Write samples of servers with this utilization of everything, several times a second."""

    def write(over: threading.Event) -> None:
        client = Client(("127.0.0.1", port))
        seq = 0
        while not over.wait(0.3):
            seq += 1
            for name, part in cpu.items():
                sample = SampleRecord(
                    upstream="web", peer=name, boot="b", seq=seq, taken_at_ms=0, interval_s=0.3,
                    utilization=(part, part, part, part), capacity=(1.0, 1.0, 1.0, 1.0), scope="process",
                )  # fmt: skip
                client.set(wire.sample_key("web", name), sample_record.encode(sample), expire=3)
        client.close()

    return meanwhile(write)


def test_haproxy_loses_no_request_and_its_weights_follow_our_agents(
    webs: Mapping[str, Web], place: Place
) -> None:
    cpu = {"server-1": 0.95, "server-2": 0.1, "server-3": 0.1}
    children = own_descendants()
    with before(webs, "haproxy-leastconn-agent", place) as balancer:
        loses_no_request(balancer)
        haproxy = balancer.fronts[0]
        assert isinstance(haproxy, HAProxy)

        def weights() -> tuple[int, ...]:
            return tuple(int(row["weight"]) for row in haproxy.rows().values())

        with agents(place.memcached_port, cpu):
            wait_until(lambda: weights()[0] < 50 < 100 < weights()[1])
    assert own_descendants() <= children


@pytest.mark.parametrize(
    ("quiet", "busy"),
    [
        ("cpu_utilization=0.2,named_metrics.io=0", "cpu_utilization=0.8,named_metrics.io=0"),
        ("cpu_utilization=0.2,named_metrics.io=0.1", "cpu_utilization=0.2,named_metrics.io=0.8"),
    ],
)
def test_envoy_weighs_servers_by_what_they_report_and_keeps_it_from_clients(
    quiet: str, busy: str, webs: Mapping[str, Web], tmp_path: Path
) -> None:
    webs["server-1"].report = busy
    webs["server-2"].report = webs["server-3"].report = quiet
    with before(webs, "envoy-cswrr", at(tmp_path)) as balancer:
        # At the same rate each, 1 : 4 : 4; and less for the busy one as soon as it has less. Envoy takes ten
        # seconds, in which a few requests show enough.
        url = balancer.urls[0]
        wait_until(lambda: answers(url, 20)["server-1"] <= 3 and answers(url, 100)["server-1"] < 100 / 9 + 5)
        connection = http.client.HTTPConnection(balancer.urls[0].removeprefix("http://"), timeout=PATIENCE_S)
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.headers["endpoint-load-metrics"] is None


def test_envoy_keeps_requests_in_its_zone_while_that_is_no_busier(
    webs: Mapping[str, Web], tmp_path: Path
) -> None:
    zones = zip(SCENARIO.servers, "aab", strict=True)
    zoned = replace(SCENARIO, servers=tuple(replace(server, zone=zone) for server, zone in zones))
    for web in webs.values():
        web.report = "cpu_utilization=0.2"
    with before(webs, "envoy-locality", at(tmp_path), zoned) as balancer:
        # By default 3 % of the requests cross, to keep the reports fresh.
        url = balancer.urls[0]
        wait_until(lambda: answers(url, 10)["server-3"] <= 1 and answers(url, 100)["server-3"] < 15)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_before_static_servers_the_proxy_has_a_cpu_of_its_own(
    webs: Mapping[str, Web], tmp_path: Path
) -> None:
    mine = os.sched_getaffinity(0)
    with before(webs, "nginx-rr", at(tmp_path), replace(SCENARIO, static=True)) as balancer:
        (worker,) = workers(balancer)
        assert os.sched_getaffinity(worker) == {max(mine)}
        assert os.sched_getaffinity(0) == mine - {max(mine)}
    assert os.sched_getaffinity(0) == mine
