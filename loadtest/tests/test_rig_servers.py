"""The lab's servers: their flags, the reports of their limits, and their capacity together."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from steelyard_agent import settings
from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.rig import cpu_limits
from steelyard_loadtest.rig.cpu_limits import capacity_per_s
from steelyard_loadtest.rig.place import (
    CALLS_PER_DISK_OPERATION,
    Files,
    agent_config,
    agent_part,
    server_part,
)
from steelyard_loadtest.scenario.definition import Drift, Server
from steelyard_loadtest.server.options import parser
from steelyard_loadtest.templates import render_file

FILES = Files("server-1", Path("/lab"))
HERE = "127.0.0.2:20001"


def made(name: str = "server-1", cores: float | None = None, **more: Any) -> Server:
    return Server(name=name, cpu_cores=cores, weight=1, **more)


def server_options(server: Server) -> argparse.Namespace:
    return parser(None).parse_args(server_part(server, HERE, FILES).command[3:])


def agent_settings(server: Server) -> settings.Settings:
    line = list(agent_part(server, HERE, FILES, memcached_port=20_002).command[3:])
    return settings.load(line, {}, hostname="here", read=Path.read_bytes)


def test_a_server_and_its_agent_agree_on_name_limit_and_files() -> None:
    server, agent = server_options(made(cores=0.3)), agent_settings(made(cores=0.3))
    assert (server.name, server.host, server.port) == ("server-1", "127.0.0.2", 20_001)
    assert (agent.peer, agent.upstream, agent.scope) == ("server-1", "web", "process")
    assert agent.memcached == (("127.0.0.1", 20_002),)
    assert server.cpu_limit == agent.limits.cpu == 0.3
    assert server.pid_file == agent.pid_file == Path("/lab/server-1.pid")
    assert server.orca_file == agent.orca_file == Path("/lab/server-1.orca")
    assert server.count_file == Path("/lab/server-1.count")


def test_the_agent_of_a_limit_that_drifts_gets_none() -> None:
    drifting = replace(made(cores=0.3), drift=Drift(by=0.3, period_s=40))
    assert server_options(drifting).cpu_limit == 0.3
    assert agent_settings(drifting).limits.cpu is None


def test_a_paced_server_is_held_by_pauses_and_its_agent_knows_the_limit() -> None:
    paced = made(cores=0.12, paced=True)
    assert (server_options(paced).cpu_limit, server_options(paced).limit_by) == (0.12, "pauses")
    assert server_options(made(cores=0.12)).limit_by == "quota"
    assert agent_settings(paced).limits.cpu == 0.12


def test_a_server_without_limits_gets_none() -> None:
    server, agent = server_options(made()), agent_settings(made())
    assert (server.cpu_limit, server.delay_ms, server.disk_ops) == (None, 0, None)
    assert (agent.limits.cpu, agent.limits.io) == (None, None)


def test_a_delay_is_the_server_s_alone() -> None:
    assert server_options(made(delay_ms=50.0)).delay_ms == 50


def test_the_agent_of_a_slow_disk_knows_how_many_calls_are_all_it_does() -> None:
    slow = made(disk_ops_per_s=40.0)
    assert server_options(slow).disk_ops == 40
    assert agent_settings(slow).limits.io == 40 * CALLS_PER_DISK_OPERATION


def test_the_agent_of_a_pool_of_workers_reads_it_where_the_server_says_it() -> None:
    pooled = made(workers=8)
    assert server_options(pooled).workers == 8
    line = list(agent_part(pooled, HERE, FILES, memcached_port=20_002).command[3:])
    files = {FILES.agent_config: agent_config(pooled, HERE, streams=False).encode()}
    (indicator,) = settings.load(line, {}, hostname="here", read=files.__getitem__).indicators
    assert indicator.name == "workers"
    assert f"http://{HERE}/metrics" in repr(indicator)
    assert agent_settings(made()).indicators == ()


def test_an_agent_that_streams_load_reports_does_so_at_its_server_s_address_with_the_rate() -> None:
    line = list(agent_part(made(), HERE, FILES, memcached_port=20_002, orca_port=20_003).command[3:])
    files = {FILES.agent_config: agent_config(made(), HERE, streams=True).encode()}
    agent = settings.load(line, {}, hostname="here", read=files.__getitem__)
    assert agent.orca_grpc == ("127.0.0.2", 20_003)
    assert "demo_requests_total" in repr(agent)


def test_memcached_is_somebody_else_only_where_it_would_be_root() -> None:
    assert parts.memcached(1, user="nobody").command[-2:] == ("-u", "nobody")
    assert "-u" not in parts.memcached(1).command


def test_static_servers_listen_on_each_port() -> None:
    settings = nginx.Nginx(folder=Path("/lab"), log=Path("/lab/log"), files=1024)
    listen = ["127.0.0.1:20001 backlog=4096", "127.0.0.1:20002 backlog=4096"]
    values = {"nginx": settings, "listen": listen, "title": ""}
    text = render_file(nginx.TEMPLATES / "answering.conf", values)
    assert "listen 127.0.0.1:20001 backlog" in text
    assert "listen 127.0.0.1:20002 backlog" in text
    assert "user root" not in text
    assert "%" not in text


CGROUP = "server-1: somewhere CPU limited to 0.3 cores by cgroup /sys/fs/cgroup/cpu/demo/s1 (v1)\n"
PAUSES = "server-2: somewhere CPU limited to 0.1 cores by (no cgroup: not root) pauses\n"
FREE = "server-3: somewhere CPU not limited\n"


@pytest.mark.parametrize(
    ("logs", "means"),
    [
        ([CGROUP, CGROUP], "cgroup v1 quotas"),
        ([CGROUP.replace("v1", "v2"), FREE], "cgroup v2 quotas"),
        ([PAUSES, PAUSES], "pauses after work (no cgroup: not root)"),
        ([PAUSES.replace("no cgroup: not root", "as asked")], "pauses after work (as asked)"),
        ([FREE, FREE], "no limits"),
        ([CGROUP, PAUSES], "cgroup v1 quotas and pauses after work (no cgroup: not root)"),
    ],
)
def test_each_means_is_listed_once(logs: list[str], means: str) -> None:
    assert cpu_limits.means(logs) == means


def test_the_group_of_a_server_is_in_its_log() -> None:
    assert cpu_limits.group(f"{CGROUP}something later\n") == Path("/sys/fs/cgroup/cpu/demo/s1")
    assert cpu_limits.group(PAUSES) is None


def test_servers_do_together_what_their_limits_allow() -> None:
    servers = (made("a", 0.3), made("b", 0.1))
    assert capacity_per_s(servers, {"a": 0.001, "b": 0.002}, "/", cores=2) == pytest.approx(300 + 50)


def test_together_they_have_no_more_than_the_machine() -> None:
    servers = tuple(made(str(number)) for number in range(10))
    costs = {server.name: 0.001 for server in servers}
    assert capacity_per_s(servers, costs, "/", cores=2) == pytest.approx(2000)


@pytest.mark.parametrize(("path", "capacity"), [("/io?bytes=4096", 20 + 300), ("/", 300 + 300)])
def test_a_slow_disk_limits_io_alone(path: str, capacity: float) -> None:
    servers = (made("slow", 0.3, disk_ops_per_s=20.0), made("fast", 0.3))
    assert capacity_per_s(servers, {"slow": 0.001, "fast": 0.001}, path, cores=2) == pytest.approx(capacity)


def test_a_disk_faster_than_its_server_s_cpu_limits_nothing() -> None:
    servers = (made("fast", 0.1, disk_ops_per_s=500.0),)
    assert capacity_per_s(servers, {"fast": 0.001}, "/io", cores=2) == pytest.approx(100)
