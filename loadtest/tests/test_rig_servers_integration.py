"""The lab's servers as they run: samples, counters, burning, rest, and nothing left behind."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
from pymemcache.client.base import Client
from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.measurements.trials import Reading
from steelyard_loadtest.rig.balancers import Balancer
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.servers import Servers
from steelyard_loadtest.scenario.algorithms import BY_NAME
from steelyard_loadtest.scenario.definition import Drift, Load, Scenario, Server

from testing.daemons import free_port
from testing.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.integration

LOAD = Load(
    generator="wrk", levels=(1.0,), of_capacity=False, seconds=1, repeats=1, warm_up_s=0, cool_down_s=0
)
UNEQUAL = (
    Server(name="server-1", cpu_cores=0.3, weight=3, workers=4),
    Server(name="server-2", cpu_cores=0.1, weight=1),
)
GROUPS = Path("/sys/fs/cgroup")


def scenario(servers: tuple[Server, ...], *, static: bool = False, path: str = "/") -> Scenario:
    return Scenario(
        name="test", title="", what="", source="", path=path, static=static, servers=servers,
        load=LOAD, events=(), algorithms=(), quick=True,
    )  # fmt: skip


def place(folder: Path, programs: Programs, servers: int = 2) -> Place:
    first = free_port(6 + servers)
    return Place(
        folder=folder,
        checkout=Path(__file__).resolve().parents[2],
        programs=programs,
        memcached_port=first,
        redis_port=first + 1,
        balancer_port=first + 2,
        api_port=first + 3,
        follow_port=first + 4,
        orca_port=first + 5,
        server_ports=tuple(range(first + 6, first + 6 + servers)),
    )


def get(address: str, path: str = "/") -> tuple[int, bytes]:
    connection = HTTPConnection(address, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def utilization(before: Reading, after: Reading) -> float:
    """Return the cores used between two readings."""
    return (after.cpu_s - before.cpu_s) / (after.at_s - before.at_s)


def wait_until_used(servers: Servers, cpu_s: float) -> None:
    """Wait until the first server has used this much CPU time from now on."""
    until_s = servers.read()[0].cpu_s + cpu_s
    wait_until(lambda: servers.read()[0].cpu_s >= until_s)


def started_from(folder: Path) -> list[psutil.Process]:
    """Return the processes with the folder in their command line."""
    daemons = []
    for process in psutil.process_iter():
        try:
            if str(folder) in " ".join(process.cmdline()) and process.pid != os.getpid():
                daemons.append(process)
        except psutil.Error:
            continue
    return daemons


def groups_of(where: Place) -> list[Path]:
    """Return the control groups of the servers on these ports."""
    return [group for port in where.server_ports for group in GROUPS.rglob(f"steelyard-demo/*-{port}")]


@pytest.fixture(scope="module")
def programs() -> Programs:
    return find(None)


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory, programs: Programs) -> Place:
    return place(tmp_path_factory.mktemp("lab"), programs)


@pytest.fixture(scope="module")
def servers(where: Place) -> Iterator[Servers]:
    with Servers(scenario(UNEQUAL), where) as running:
        yield running


def test_each_server_answers_and_has_a_sample(servers: Servers, where: Place) -> None:
    assert list(servers.addresses) == ["server-1", "server-2"]
    assert servers.means.startswith(("cgroup v", "pauses after work"))
    with closing(Client(("127.0.0.1", where.memcached_port))) as memcached:
        for name, address in servers.addresses.items():
            assert json.loads(get(address)[1])["server"] == name
            sample = json.loads(memcached.get(f"steelyard:1:sample:web:{name}"))
            assert (sample["scope"], sample["peer"]) == ("process", name)
    servers.check()


def test_envoy_weighs_servers_by_their_agents_streams(servers: Servers, where: Place) -> None:
    servers.rest()
    algorithm = BY_NAME["envoy-cswrr-oob"]
    with Balancer(algorithm, scenario(UNEQUAL), servers.addresses, where) as balancer:

        def share() -> float:
            url = balancer.urls[0].removeprefix("http://")
            names = [json.loads(get(url)[1])["server"] for _ in range(50)]
            return names.count("server-1") / len(names)

        # At the same rate each, a third of the CPU is three times the utilization. Without weights it is 0.5.
        wait_until(lambda: share() > 0.6)


def test_counters_count_each_server_s_answers_and_cpu(servers: Servers) -> None:
    servers.rest()
    before = servers.read()
    for _ in range(20):
        get(servers.addresses["server-2"])
    wait_until(lambda: servers.read()[1].served == before[1].served + 20)
    after = servers.read()
    assert [reading.server for reading in after] == ["server-1", "server-2"]
    assert after[0].served == before[0].served
    assert after[1].cpu_s > before[1].cpu_s


def test_a_burnt_server_is_at_its_limit_and_the_other_is_idle(servers: Servers) -> None:
    servers.rest()
    servers.burn("server-1", 60, 2)
    wait_until_used(servers, 0.1)
    before = servers.read()
    wait_until_used(servers, 0.3)
    burnt, idle = map(utilization, before, servers.read())
    # Its limit is 0.3 cores. On a busy machine it gets less, and takes longer for the same.
    assert burnt < 0.45
    assert idle < 0.05
    servers.rest()
    assert b'"burners":0' in get(servers.addresses["server-1"], "/healthz")[1]
    servers.check()


def test_workers_that_are_held_are_free_again_at_rest(servers: Servers) -> None:
    servers.rest()
    wait_until(lambda: servers.read()[0].pool_utilization == 0)  # the agent's next sample says so
    before = servers.read()[0].served
    servers.hold("server-1", 0.5, 4)
    servers.rest()
    servers.check()
    wait_until(lambda: servers.read()[0].served == before + 4)
    assert servers.read()[1].pool_utilization is None


def test_the_cpu_time_of_a_burner_that_ended_stays(servers: Servers, where: Place) -> None:
    servers.rest()
    seen = [servers.read()[1].cpu_s]
    server = psutil.Process(int((where.folder / "server-2.pid").read_text()))
    servers.burn("server-2", 1, 2)
    wait_until(lambda: len(server.children()) == 2)
    burners = server.children()

    def ended() -> bool:
        seen.append(servers.read()[1].cpu_s)
        return all(burner.status() == psutil.STATUS_ZOMBIE for burner in burners)

    wait_until(ended)
    assert seen[-1] > seen[0] + 0.01  # the start of two burners alone takes more
    get(servers.addresses["server-2"], "/healthz")  # it reaps them now
    seen.append(servers.read()[1].cpu_s)
    assert seen == sorted(seen)


def test_check_reports_a_refused_burn(servers: Servers) -> None:
    servers.burn("server-1", 1, 99)

    def refused() -> bool:
        try:
            servers.check()
        except SetupError as error:
            return str(error) == "server-1 answers 400, not 202"
        return False

    wait_until(refused)


def test_capacity_is_measured_and_a_path_that_is_not_counted_is_refused(servers: Servers) -> None:
    servers.rest()
    # 0.4 cores; a request costs between 0.2 and 20 ms on any machine.
    capacity = servers.capacity("/", times=2)
    assert len(capacity.measured_per_s) == 2
    assert 20 < capacity.per_s < 2000
    with pytest.raises(SetupError, match="/healthz"):
        servers.capacity("/healthz")


def test_an_ended_server_is_reported_with_its_last_words_and_nothing_stays(
    tmp_path: Path, programs: Programs
) -> None:
    where = place(tmp_path, programs)
    with Servers(scenario(UNEQUAL), where) as servers:
        assert len(started_from(tmp_path)) == 4
        assert len(groups_of(where)) == (2 if servers.means.startswith("cgroup") else 0)
        psutil.Process(int((tmp_path / "server-2.pid").read_text())).kill()

        def reported() -> bool:
            try:
                servers.check()
            except SetupError as error:
                return str(error).startswith("server-2: ") and "CPU limited to 0.1 cores" in str(error)
            return False

        wait_until(reported)
        assert len(servers.read()) == 2
    wait_until(lambda: started_from(tmp_path) == [])
    assert groups_of(where) == []
    for port in (where.memcached_port, where.redis_port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_limit_that_drifts_is_the_group_s_quota_and_what_the_agent_reads(
    tmp_path: Path, programs: Programs
) -> None:
    drifting = (Server(name="server-1", cpu_cores=0.2, drift=Drift(by=0.5, period_s=40)),)
    where = place(tmp_path, programs, servers=1)
    if os.geteuid() != 0:
        with pytest.raises(SetupError, match="run it as root"), Servers(scenario(drifting), where):
            pass
        return
    with (
        Servers(scenario(drifting), where) as servers,
        closing(Client(("127.0.0.1", where.memcached_port))) as memcached,
    ):

        def cores() -> float:
            sample = json.loads(memcached.get("steelyard:1:sample:web:server-1"))
            value: float = sample["capacity"]["cpu_cores"]
            return value

        wait_until(lambda: cores() == 0.2)
        servers.drift(10.0)
        wait_until(lambda: cores() == 0.3)
        servers.drift(30.0)
        wait_until(lambda: cores() == 0.1)


def test_a_full_slow_disk_reads_as_busy_and_an_idle_one_as_idle(tmp_path: Path, programs: Programs) -> None:
    slow = (Server(name="server-1", cpu_cores=None, weight=1, disk_ops_per_s=20.0),)
    where = place(tmp_path, programs, servers=1)
    ended = threading.Event()

    def ask(address: str) -> None:
        while not ended.is_set():
            get(address, "/io?bytes=1000")

    with (
        Servers(scenario(slow, path="/io"), where) as servers,
        closing(Client(("127.0.0.1", where.memcached_port))) as memcached,
    ):

        def io() -> float:
            value: float = json.loads(memcached.get("steelyard:1:sample:web:server-1"))["utilization"]["io"]
            return value

        wait_until(lambda: io() < 0.05)
        users = [threading.Thread(target=ask, args=(servers.addresses["server-1"],)) for _ in range(4)]
        for user in users:
            user.start()
        try:
            wait_until(lambda: io() > 0.8)
        finally:
            ended.set()
            for user in users:
                user.join()
        assert servers.capacity("/io", times=1).per_s == pytest.approx(20)


def test_static_servers_answer_at_once_on_all_addresses(tmp_path: Path, programs: Programs) -> None:
    with Servers(scenario(UNEQUAL, static=True), place(tmp_path, programs)) as servers:
        assert [get(address)[0] for address in servers.addresses.values()] == [200, 200]
        assert (servers.read(), servers.means) == ((), "no limits")
        servers.rest()
        with pytest.raises(SetupError, match="give levels"):
            servers.capacity("/")
    wait_until(lambda: started_from(tmp_path) == [])


def test_a_taken_port_is_an_error_that_names_the_server_and_ends_the_rest(
    tmp_path: Path, programs: Programs, servers: Servers
) -> None:
    taken = int(servers.addresses["server-1"].rpartition(":")[2])
    where = replace(place(tmp_path, programs, servers=1), server_ports=(taken,))
    with (
        pytest.raises(SetupError, match=r"server-1: .*cannot listen on 127\.0\.0\.1"),
        Servers(scenario(UNEQUAL[:1]), where),
    ):
        pass
    wait_until(lambda: started_from(tmp_path) == [])
