"""A missing program is reported with its package, and never measured under another one's name."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from steelyard_loadtest.machine import find_programs
from steelyard_loadtest.machine.errors import ProgramError, SetupError
from steelyard_loadtest.machine.programs import LUA, Programs
from steelyard_loadtest.rig.balancers import Balancer, why_missing
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.scenario.algorithms import BY_NAME, DEFAULT
from steelyard_loadtest.scenario.definition import Load, Scenario, Server

from testing.daemons import Daemon, free_port

pytestmark = pytest.mark.integration

CHECKOUT = Path(__file__).resolve().parents[2]
ADDRESSES = {"server-1": "127.0.0.1:1"}
SCENARIO = Scenario(
    name="one",
    title="",
    what="",
    source="",
    path="/",
    static=False,
    servers=tuple(Server(name=name, cpu_cores=None, weight=1) for name in ADDRESSES),
    load=Load(
        generator="wrk", levels=(1,), of_capacity=False, seconds=1, repeats=1, warm_up_s=0, cool_down_s=0
    ),
    events=(),
    algorithms=(),
    quick=True,
)


@cache
def programs() -> Programs:
    """Return the programs of this machine."""
    return find_programs.find(None)


def at(folder: Path, seen: Programs, memcached: int = 1, redis: int = 1) -> Place:
    return Place(
        folder=folder,
        checkout=CHECKOUT,
        programs=seen,
        memcached_port=memcached,
        redis_port=redis,
        balancer_port=free_port(),
        api_port=free_port(),
        follow_port=free_port(),
        server_ports=(),
    )


def test_what_is_not_installed_names_its_package_and_does_not_start(tmp_path: Path) -> None:
    without = replace(programs(), others={}, modules={**programs().modules, LUA: None})
    for name, package in (
        ("haproxy-tcp", "apt-get install haproxy"),
        ("envoy-cswrr", "scripts/setup --with-bench"),
        (DEFAULT, "apt-get install libnginx-mod-http-lua"),
    ):
        balancer = Balancer(BY_NAME[name], SCENARIO, ADDRESSES, at(tmp_path, without))
        with pytest.raises(ProgramError, match=package), balancer:
            pass


def test_least_time_is_there_where_an_nginx_that_takes_it_is_named(tmp_path: Path) -> None:
    algorithm = BY_NAME["nginx-least_time"]
    assert "--nginx-least-time PATH" in (why_missing(algorithm, replace(programs(), others={})) or "")
    program = tmp_path / "nginx-1.31"
    program.write_text("#!/bin/sh\necho 'nginx version: nginx/1.31.5' >&2\n")
    program.chmod(0o755)
    named = find_programs.find(None, least_time=str(program))
    assert why_missing(algorithm, named) is None
    assert named.versions["nginx mainline"] == "nginx/1.31.5"
    assert (named.path("nginx-mainline"), named.nginx) == (str(program), programs().nginx)
    with pytest.raises(SetupError, match="no nginx at --nginx-least-time /nowhere/nginx"):
        find_programs.find(None, least_time="/nowhere/nginx")


def test_a_picker_that_falls_back_is_not_measured_under_its_name(
    tmp_path: Path, memcached: Daemon, redis_server: Daemon
) -> None:
    place = at(tmp_path, programs(), memcached.port, redis_server.port)
    balancer = Balancer(BY_NAME["steelyard-static-swrr"], SCENARIO, ADDRESSES, place)
    with pytest.raises(ProgramError, match="picker swrr needs lua-resty-balancer"), balancer:
        pass
