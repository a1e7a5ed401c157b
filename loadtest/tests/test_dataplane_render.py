"""The configurations of the contenders."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from steelyard_loadtest.cluster import nginx
from steelyard_loadtest.dataplane.contenders import BY_NAME, CONTENDERS, peers
from steelyard_loadtest.machine.programs import FAIR, LUA, VNSWRR, Programs
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.render import BalancerConfig
from steelyard_loadtest.templates import render_file

PLAIN = "\nupstream web {\n    keepalive 67;\n}\n"
SHARDED = "\nupstream web_00 {\n}\n\nupstream web_01 {\n}\n"
SERVERS = peers(3, 20002)
PROGRAMS = Programs(
    wrk=None, nginx="nginx", backend_nginx="nginx", memcached=None,
    modules=dict.fromkeys(((), LUA, FAIR, VNSWRR), ("/modules/lua.so",)), versions={},
)  # fmt: skip


def conf(name: str, **changes: object) -> BalancerConfig:
    made = BalancerConfig(
        algorithm=BY_NAME[name],
        place=Place(
            folder=Path("/folder"),
            checkout=Path("/checkout"),
            programs=PROGRAMS,
            memcached_port=20003,
            balancer_port=20001,
        ),
        addresses={peer.id: peer.address for peer in SERVERS},
        weights={peer.id: peer.weight for peer in SERVERS},
        files=65536,
        root=True,
        clients=64,
    )
    given: dict[str, Any] = {"upstream": PLAIN} | changes
    return replace(made, **given)


def text(name: str, **changes: object) -> str:
    return render.configuration(conf(name, **changes), [peer.id for peer in SERVERS])


def lines(name: str, **changes: object) -> list[str]:
    return [line.strip() for line in text(name, **changes).splitlines()]


@pytest.mark.parametrize(
    "name", [contender.name for contender in CONTENDERS if contender.program != "direct"]
)
def test_nothing_is_left_to_fill_in(name: str) -> None:
    assert "%" not in text(name)


def test_nginx_has_every_server_its_weight_and_a_pool_for_all() -> None:
    config = lines("nginx-least_conn")
    assert [line for line in config if line.startswith("server 127.")] == [
        "server 127.1.0.1:20002 weight=1;",
        "server 127.1.0.2:20002 weight=8;",
        "server 127.1.0.3:20002 weight=5;",
    ]
    # The method before keepalive, as nginx wants it.
    assert config.index("least_conn;") < config.index("keepalive 67;")
    assert "worker_processes 1;" in config
    assert "load_module /modules/lua.so;" in config
    assert "user root;" in config


def test_only_root_names_a_user() -> None:
    assert "user root;" not in lines("nginx-swrr", root=False)


def test_fair_gets_the_shared_memory_that_2000_servers_need() -> None:
    assert "upstream_fair_shm_size 64m;" in lines("nginx-fair")
    assert "upstream_fair_shm_size" not in text("nginx-swrr")


def test_lua_alone_is_two_phases_and_every_server_in_its_turn() -> None:
    config = lines("nginx-lua")
    assert 'servers[3] = { "127.1.0.3", 20002 }' in config
    assert config.index("balancer_by_lua_block { next_server() }") < config.index("keepalive 67;")
    assert "log_by_lua_block { }" in config


def test_ours_has_the_generator_s_blocks_and_goes_to_the_one() -> None:
    config = text("vnswrr")
    assert PLAIN in config
    assert "proxy_pass http://web;" in config
    assert "shards" not in config
    assert 'memcached = { "127.0.0.1:20003" }' in config


def test_ours_with_shards_chooses_the_block_by_the_server() -> None:
    config = text("vnswrr", upstream=SHARDED)
    assert render.shards(SHARDED) == 2
    assert "web = { bootstrap = {}, shards = 2 }" in config
    assert 'set_by_lua_block $steelyard_web { return require("steelyard").shard("web") }' in config
    assert "proxy_pass http://$steelyard_web;" in config


def test_haproxy_has_every_server_and_its_method() -> None:
    config = lines("haproxy-leastconn")
    assert "balance leastconn" in config
    assert "server server-00001 127.1.0.2:20002 weight 8" in config
    assert "nbthread 1" in config


def test_envoy_s_file_is_yaml_with_every_server_and_its_method() -> None:
    (cluster,) = yaml.safe_load(text("envoy-least_request"))["static_resources"]["clusters"]
    assert cluster["lb_policy"] == "LEAST_REQUEST"
    (locality,) = cluster["load_assignment"]["endpoints"]
    assert json.loads(json.dumps(locality["lb_endpoints"][1])) == {
        "endpoint": {"address": {"socket_address": {"address": "127.1.0.2", "port_value": 20002}}},
        "load_balancing_weight": 8,
    }


def test_the_servers_answer_loopback_only() -> None:
    listen = ["0.0.0.0:20002 reuseport backlog=4096"]
    values = {"nginx": conf("direct").nginx, "listen": listen, "title": ""}
    config = render_file(nginx.TEMPLATES / "answering.conf", values)
    assert "listen 0.0.0.0:20002 reuseport" in config
    assert config.index("allow 127.0.0.0/8;") < config.index("deny all;")
    assert "%" not in config
