"""The daemons' configuration files."""

from pathlib import Path

import pytest
import yaml
from steelyard_loadtest.machine.programs import LUA, Programs
from steelyard_resilience.stage import install, layout
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.layout import Place

PROGRAMS = Programs(
    wrk=None, nginx="/usr/sbin/nginx", backend_nginx="/usr/sbin/nginx", memcached="/usr/bin/memcached",
    modules={LUA: ("/modules/ndk.so", "/modules/lua.so")}, versions={},
)  # fmt: skip


def place(folder: Path, clocks: Path | None = None) -> Place:
    return Place(
        folder=folder,
        programs=PROGRAMS,
        clocks=clocks,
    )


def nginx(settings: Settings, clocks: Path | None = None) -> str:
    return layout.nginx_conf(settings, place(Path("/stage"), clocks), "    upstream web { }")


def test_nginx_knows_every_part() -> None:
    text = nginx(Settings(servers=2, nginx_workers=3))
    assert "load_module /modules/ndk.so;\nload_module /modules/lua.so;" in text
    assert "worker_processes 3;" in text
    assert 'memcached = { "10.213.0.31:11211" }' in text
    assert 'controller = { "http://10.213.0.21:8081", "http://10.213.0.22:8081" }' in text
    assert 'bootstrap = { "10.213.0.41:8100", "10.213.0.42:8100" }' in text
    assert 'allow = { "10.213.0.1" }' in text
    assert 'state_dir = "/stage/nginx-state"' in text
    assert "    upstream web { }" in text
    assert "%" not in text
    assert "{{" not in text


@pytest.mark.integration
def test_idle_connections_last_as_long_as_nginx_s_own_timeout(tmp_path: Path) -> None:
    install.write(place(tmp_path), Settings())
    text = (tmp_path / "nginx.conf").read_text()
    assert "    keepalive " in text
    assert "keepalive_timeout" not in text


def test_nginx_reads_its_secrets_from_files() -> None:
    text = nginx(Settings())
    assert 'key = secret("/stage/secrets/key"),' in text
    assert 'controller_token = secret("/stage/secrets/read-token"),' in text


def test_nginx_waits_for_a_vanished_server_as_long_as_the_bounds_assume() -> None:
    text = nginx(Settings())
    for option in ("fetch_interval_s = 0.5,", "hold_s = 60.0,", "drift_s = 300.0,"):
        assert option in text
    assert "proxy_read_timeout 3000ms;" in text


def test_unlogged_requests_may_reach_the_servers_limit() -> None:
    text = nginx(Settings())
    assert "location / { proxy_pass http://web; log_by_lua_block { return } }" in text
    assert "max_conns = 300," in text


def test_workers_get_the_faked_clock() -> None:
    assert "\nenv " not in nginx(Settings())
    text = nginx(Settings(faketime=True), Path("/lib/faketime.so"))
    assert "\nenv FAKETIME_TIMESTAMP_FILE;\n" in text


def test_the_controllers_file_declares_every_server_alike() -> None:
    declared = yaml.safe_load(layout.controller_yaml(Settings(servers=2)))
    upstream = declared["upstreams"]["web"]
    assert upstream["load_balancers"] == ["edge-1"]
    assert upstream["peers"] == [
        {"id": "server-1", "address": "10.213.0.41:8100", "baseline": 1},
        {"id": "server-2", "address": "10.213.0.42:8100", "baseline": 1},
    ]


def test_envoy_asks_each_controller_through_the_proxy_that_can_delay_it() -> None:
    document = yaml.safe_load(layout.envoy_yaml(Settings(front="envoy")))
    web, ours = document["static_resources"]["clusters"]
    assert (
        document["node"]["id"]
        in yaml.safe_load(layout.controller_yaml(Settings(front="envoy")))["upstreams"]["web"][
            "load_balancers"
        ]
    )
    assert web["type"] == "EDS"
    (locality,) = ours["load_assignment"]["endpoints"]
    asked = [each["endpoint"]["address"]["socket_address"] for each in locality["lb_endpoints"]]
    proxies = {part.host: part.command for part in layout.proxies(Settings(front="envoy"))}
    for controller, address in zip(("controller-1", "controller-2"), asked, strict=True):
        port, behind, _ = proxies[controller][-3:]
        assert str(address["port_value"]) == port
        flags = next(
            part.command
            for part in layout.daemons(Settings(front="envoy"), place(Path("/stage")))
            if part.name == controller
        )
        assert flags[flags.index("--xds-port") + 1] == behind
