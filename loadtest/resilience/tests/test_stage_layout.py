"""The daemons of each host, and their commands."""

from pathlib import Path

import pytest
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.programs import LUA, Programs
from steelyard_resilience.stage import hosts, layout
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.layout import Place

PROGRAMS = Programs(
    wrk=None, nginx="/usr/sbin/nginx", backend_nginx="/usr/sbin/nginx", memcached="/usr/bin/memcached",
    modules={LUA: ("/modules/ndk.so", "/modules/lua.so")}, versions={},
)  # fmt: skip


def place(*, clocks: Path | None = None) -> Place:
    return Place(
        folder=Path("/stage"),
        programs=PROGRAMS,
        clocks=clocks,
    )


def parts(settings: Settings, where: Place | None = None) -> dict[str, Part]:
    return {part.name: part for part in layout.daemons(settings, where or place())}


def test_each_part_is_there_once_and_on_its_host() -> None:
    daemons = parts(Settings(servers=2))
    assert {name: part.host for name, part in daemons.items()} == {
        "memcached": "memcached",
        "redis": "redis",
        "controller-1": "controller-1",
        "controller-2": "controller-2",
        "server-1": "server-1",
        "agent-1": "server-1",
        "server-2": "server-2",
        "agent-2": "server-2",
        "nginx": "edge",
    }


def test_stores_listen_behind_the_proxies_that_their_clients_connect_to() -> None:
    daemons = parts(Settings())
    for proxy in layout.proxies(Settings()):
        behind = hosts.DAEMON_PORTS.get(proxy.host, hosts.API_PORT)
        assert str(behind) in proxy.command
        assert daemons[proxy.host].port == behind
    clients = [part for name, part in daemons.items() if name not in ("memcached", "redis")]
    assert not any(str(port) in word for part in clients for word in part.command for port in (11212, 6380))
    assert all(
        "10.213.0.31:11211" in part.command for part in clients if part.name.startswith(("agent", "contr"))
    )
    assert "redis://10.213.0.32:6379/0" in daemons["controller-2"].command


def test_parts_read_their_secrets_from_files() -> None:
    daemons = parts(Settings())
    assert {"--key-file", "--read-token-file"} <= set(daemons["controller-1"].command)
    state = {daemons[name].environment["XDG_STATE_HOME"] for name in hosts.CONTROLLERS}
    assert state == {str(place().secret("steelyard/admin_token").parents[1])}
    assert "--key-file" in daemons["agent-1"].command


@pytest.mark.parametrize("name", ["memcached", "redis", "controller-1", "server-1", "agent-1", "nginx"])
def test_a_host_s_clock_is_faked_for_all_that_runs_there(name: str) -> None:
    true = parts(Settings())[name]
    faked = parts(Settings(faketime=True), place(clocks=Path("/lib/libfaketime.so.1")))[name]
    assert "LD_PRELOAD" not in true.environment
    assert faked.environment["LD_PRELOAD"].startswith("/lib/libfaketime.so.1")
    assert faked.environment["FAKETIME_TIMESTAMP_FILE"] == f"/stage/clocks/{faked.host}"
    assert faked.environment["FAKETIME_DONT_FAKE_MONOTONIC"] == "1"


def test_redis_s_memory_is_libc_s_where_its_clock_is_faked() -> None:
    faked = parts(Settings(faketime=True), place(clocks=Path("/lib/faketime.so")))
    assert faked["redis"].environment["LD_PRELOAD"] == "/lib/faketime.so:libc.so.6"
    assert faked["memcached"].environment["LD_PRELOAD"] == "/lib/faketime.so"


def test_only_nginx_is_asked_to_end_when_this_program_was_killed() -> None:
    # A stopped process gets KILL at once. nginx needs TERM, because it has to end its workers.
    assert {part.name for part in parts(Settings()).values() if part.orphan_signal != "KILL"} == {"nginx"}
