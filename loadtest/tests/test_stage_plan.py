"""What runs where, and what its command says."""

from pathlib import Path

import pytest
from steelyard_loadtest.stage import hosts, plan
from steelyard_loadtest.stage.plan import Part, Place
from steelyard_loadtest.stage.settings import Settings


def place(*, clocks: Path | None = None) -> Place:
    return Place(
        folder=Path("/stage"),
        checkout=Path("/checkout"),
        nginx="/usr/sbin/nginx",
        nginx_modules=("/modules/lua.so",),
        memcached="/usr/bin/memcached",
        redis="/usr/bin/redis-server",
        clocks=clocks,
    )


def parts(settings: Settings, where: Place | None = None) -> dict[str, Part]:
    return {part.name: part for part in plan.parts(settings, where or place())}


def test_each_part_is_there_once_and_on_its_host() -> None:
    found = parts(Settings(servers=2))
    assert {name: part.host for name, part in found.items()} == {
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
    found = parts(Settings())
    for proxy in plan.proxies():
        behind = hosts.DAEMON_PORTS[proxy.host]
        assert f"127.0.0.1:{behind}" in proxy.command
        assert found[proxy.host].port == behind
    clients = [part for name, part in found.items() if name not in ("memcached", "redis")]
    assert not any(str(port) in word for part in clients for word in part.command for port in (11212, 6380))
    assert all(
        "10.213.0.31:11211" in part.command for part in clients if part.name.startswith(("agent", "contr"))
    )
    assert "redis://10.213.0.32:6379/0" in found["controller-2"].command


def test_unsigned_parts_have_no_key_and_no_read_token() -> None:
    secrets = {"--key-file", "--read-token-file"}
    signed, unsigned = parts(Settings()), parts(Settings(signed=False))
    assert secrets <= set(signed["controller-1"].command)
    assert "--key-file" in signed["agent-1"].command
    assert not any(secrets & set(part.command) for part in unsigned.values())
    assert "--admin-token-file" in unsigned["controller-1"].command


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


def test_a_server_works_where_no_delay_is_asked_for() -> None:
    assert "--delay-ms" not in parts(Settings(server_delay_ms=0))["server-1"].command
    command = parts(Settings(server_delay_ms=20))["server-1"].command
    assert command[command.index("--delay-ms") + 1] == "20"


def test_only_nginx_is_asked_to_end_when_this_program_was_killed() -> None:
    # What can be caught waits for as long as a process is stopped; but nginx has to tell its workers.
    assert {part.name for part in parts(Settings()).values() if part.orphan_signal != "KILL"} == {"nginx"}
