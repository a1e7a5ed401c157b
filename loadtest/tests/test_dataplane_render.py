"""What the contenders are started with."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from steelyard_loadtest.dataplane import arguments, render
from steelyard_loadtest.dataplane.contenders import BY_NAME, CONTENDERS
from steelyard_loadtest.dataplane.peers import peers
from steelyard_loadtest.dataplane.render import Scene

TEMPLATES = Path(render.__file__).with_name("templates")
PLAIN = "\nupstream web {\n    keepalive 67;\n}\n"
SHARDED = "\nupstream web_00 {\n}\n\nupstream web_01 {\n}\n"
SCENE = Scene(
    folder=Path("/folder"),
    lua_dir=Path("/lua"),
    port=20001,
    backend_port=20002,
    memcached_port=20003,
    peers=peers(3, 20002),
    connections=64,
    files=65536,
    backend_workers=1,
    root=True,
    load_modules=("/modules/lua.so",),
    upstream=PLAIN,
)


def text(name: str, scene: Scene = SCENE) -> str:
    contender = BY_NAME[name]
    template = (TEMPLATES / render.TEMPLATES[contender.program]).read_text(encoding="utf-8")
    return render.configuration(contender, scene, template)


def lines(name: str, scene: Scene = SCENE) -> list[str]:
    return [line.strip() for line in text(name, scene).splitlines()]


@pytest.mark.parametrize(
    "name", [contender.name for contender in CONTENDERS if contender.program != "direct"]
)
def test_nothing_is_left_to_fill_in(name: str) -> None:
    assert "%" not in text(name)


def test_nginx_has_every_server_its_weight_and_a_pool_for_all() -> None:
    found = lines("nginx-least_conn")
    assert [line for line in found if line.startswith("server 127.")] == [
        "server 127.1.0.1:20002 weight=1;",
        "server 127.1.0.2:20002 weight=8;",
        "server 127.1.0.3:20002 weight=5;",
    ]
    # The method before keepalive, as nginx wants it.
    assert found.index("least_conn;") < found.index("keepalive 67;")
    assert "worker_processes 1;" in found
    assert "load_module /modules/lua.so;" in found
    assert "user root;" in found


def test_only_root_names_a_user() -> None:
    assert "user root;" not in lines("nginx-swrr", replace(SCENE, root=False))


def test_fair_gets_the_shared_memory_that_2000_servers_need() -> None:
    assert "upstream_fair_shm_size 64m;" in lines("nginx-fair")
    assert "upstream_fair_shm_size" not in text("nginx-swrr")


def test_ours_has_the_generator_s_blocks_and_goes_to_the_one() -> None:
    found = text("vnswrr")
    assert PLAIN in found
    assert "proxy_pass http://web;" in found
    assert "shards" not in found
    assert 'memcached = {"127.0.0.1:20003"}' in found


def test_ours_with_shards_chooses_the_block_by_the_server() -> None:
    found = text("vnswrr", replace(SCENE, upstream=SHARDED))
    assert render.shards(SHARDED) == 2
    assert "web = { bootstrap = {}, shards = 2 }" in found
    assert 'set_by_lua_block $steelyard_web { return require("steelyard").shard("web") }' in found
    assert "proxy_pass http://$steelyard_web;" in found


def test_haproxy_has_every_server_and_its_method() -> None:
    found = lines("haproxy-leastconn")
    assert "balance leastconn" in found
    assert "server server-00001 127.1.0.2:20002 weight 8" in found
    assert "nbthread 1" in found


def test_envoy_s_file_is_yaml_with_every_server_and_its_method() -> None:
    (cluster,) = yaml.safe_load(text("envoy-least_request"))["static_resources"]["clusters"]
    assert cluster["lb_policy"] == "LEAST_REQUEST"
    (locality,) = cluster["load_assignment"]["endpoints"]
    assert json.loads(json.dumps(locality["lb_endpoints"][1])) == {
        "endpoint": {"address": {"socket_address": {"address": "127.1.0.2", "port_value": 20002}}},
        "load_balancing_weight": 8,
    }


def test_the_servers_answer_loopback_only() -> None:
    found = render.backend(SCENE, (TEMPLATES / "backend.conf").read_text(encoding="utf-8"))
    assert "listen 0.0.0.0:20002 reuseport" in found
    assert found.index("allow 127.0.0.0/8;") < found.index("deny all;")
    assert "%" not in found


def test_thinking_users_wait_so_long_on_average_and_print_the_same_figures() -> None:
    figures = (TEMPLATES / "figures.lua").read_text(encoding="utf-8")
    script = render.think_script((TEMPLATES / "think.lua").read_text(encoding="utf-8"), figures, 5)
    assert "return math.random(0, 10)" in script
    assert script.endswith(f"{figures}\n")
    assert "function delay" not in figures


def test_flags_take_lists_and_say_what_they_want() -> None:
    assert arguments.peer_counts("2000,3,3") == (3, 2000)
    assert [contender.name for contender in arguments.contenders("vnswrr, swrr")] == ["nginx-swrr", "vnswrr"]
    assert arguments.rounds("0") == 0
    for take, wrong in (
        (arguments.peer_counts, "0"),
        (arguments.peer_counts, "3,x"),
        (arguments.peer_counts, "10001"),
        (arguments.seconds, "0"),
        (arguments.connections, "1.5"),
        (arguments.rounds, "-1"),
        (arguments.contenders, "nobody"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=r"from|none of"):
            take(wrong)
