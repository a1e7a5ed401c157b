"""Every program accepts its configuration for every algorithm."""

import os
import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from steelyard_controller import laws
from steelyard_loadtest.machine import find_programs
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.balancers import why_missing
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.rig.proxies import PROXIES
from steelyard_loadtest.rig.proxies.steelyard import steelyard_blocks
from steelyard_loadtest.scenario.algorithms import ALGORITHMS, BY_NAME, DEFAULT, PICKERS, Algorithm

from testing.daemons import free_port

pytestmark = pytest.mark.integration

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = ("server-1", "server-2", "server-3")
DEFAULT_LAW = BY_NAME[DEFAULT].law
OTHER_LAWS = [
    each
    for each in ALGORITHMS
    if each.law != DEFAULT_LAW and each.name == f"steelyard-{each.law}-{each.method}"
]


@cache
def programs() -> Programs:
    """Return the programs of this machine."""
    return find_programs.find(None)


def configured(algorithm: Algorithm, folder: Path) -> render.BalancerConfig:
    """Return a conf with every file written; its servers need not exist."""
    place = Place(
        folder=folder,
        checkout=CHECKOUT,
        programs=programs(),
        memcached_port=1,
        redis_port=1,
        balancer_port=free_port(),
        api_port=1,
        follow_port=1,
        server_ports=(),
    )
    conf = render.BalancerConfig(
        algorithm=algorithm,
        place=place,
        addresses={name: f"127.0.0.{number}:80" for number, name in enumerate(NAMES, 1)},
        weights=dict.fromkeys(NAMES, 1),
        files=1024,
        root=os.geteuid() == 0,
        socket=folder / "s",
    )
    if algorithm.ours:
        servers, nginx = len(conf.addresses), conf.place.programs.nginx
        blocks = steelyard_blocks(conf.place.checkout, nginx, servers=servers, clients=conf.clients)
        conf = replace(conf, upstream=blocks)
    conf.folder.mkdir()
    if algorithm.program == "envoy":
        conf.endpoints.write_text(render.endpoints(conf, NAMES))
    conf.nginx.temporary.mkdir()
    return conf


@pytest.mark.parametrize(
    "algorithm",
    # Those that need OpenResty and those of other laws are tested below. Traefik checks its configuration
    # only when it starts.
    [
        each
        for each in ALGORITHMS
        if each.program not in ("direct", "traefik") and each.name != "steelyard-tcp"
        if each not in OTHER_LAWS
    ],
    ids=lambda a: a.name,
)
def test_the_program_itself_accepts_every_configuration(algorithm: Algorithm, tmp_path: Path) -> None:
    if why := why_missing(algorithm, programs()):
        pytest.skip(why)
    conf = configured(algorithm, tmp_path)
    config = str(conf.config)
    conf.config.write_text(render.configuration(conf, NAMES))
    command = {
        "haproxy": [programs().path("haproxy"), "-c", "-f", config],
        "envoy": [programs().path("envoy"), "-c", config, "--mode", "validate", "--log-level", "error"],
        "caddy": [programs().path("caddy"), "validate", "--config", config],
    }.get(
        algorithm.program,
        [
            PROXIES[algorithm.program].part(conf).command[0],
            "-t",
            "-p",
            str(conf.folder),
            "-c",
            config,
            "-e",
            str(tmp_path / "log"),
        ],
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn" not in (done.stdout + done.stderr).lower()


def test_the_configuration_of_another_law_is_that_of_the_default_law(tmp_path: Path) -> None:
    def text(algorithm: Algorithm) -> str:
        (tmp_path / algorithm.name).mkdir()
        text = render.configuration(configured(algorithm, tmp_path / algorithm.name), NAMES)
        text = text.replace(algorithm.name, "x").replace(algorithm.title, "title")
        return re.sub(r"127\.0\.0\.1:\d+", "here", text)

    texts = {picker: text(BY_NAME[f"steelyard-{DEFAULT_LAW}-{picker}"]) for picker in PICKERS}
    assert len(OTHER_LAWS) == (len(laws.NAMES) - 1) * len(texts)
    for algorithm in OTHER_LAWS:
        assert text(algorithm) == texts[algorithm.method], algorithm.name


def test_over_tcp_ours_is_accepted_where_nginx_has_ngx_stream_lua_and_refused_elsewhere(
    tmp_path: Path,
) -> None:
    algorithm = BY_NAME["steelyard-tcp"]
    why = why_missing(algorithm, programs())
    if why is not None:
        assert "has no ngx_stream_lua, which OpenResty has (--nginx PATH)" in why
        return
    conf = configured(algorithm, tmp_path)
    conf.config.write_text(render.configuration(conf, NAMES))
    subprocess.run([programs().nginx, "-t", "-c", conf.config], check=True)


def test_least_time_is_the_configuration_of_least_conn_with_another_directive_and_program(
    tmp_path: Path,
) -> None:
    texts = {}
    for name in ("nginx-least_conn", "nginx-least_time"):
        (tmp_path / name).mkdir()
        conf = configured(BY_NAME[name], tmp_path / name)
        text = render.configuration(conf, NAMES)
        texts[name] = re.sub(r"127\.0\.0\.1:\d+", "here", text.replace(name, "x").replace("-mainline", ""))
    old, new = texts.values()
    assert old.replace("        least_conn;\n", "        least_time last_byte inflight;\n") == new
    newer = replace(programs(), others={"nginx-mainline": "/opt/nginx"})
    named = replace(conf, place=replace(conf.place, programs=newer))
    assert PROXIES[named.algorithm.program].part(named).command[0] == "/opt/nginx"


@pytest.mark.parametrize("servers", [3, 2000])
def test_every_nginx_keeps_its_connections_alike(servers: int, tmp_path: Path) -> None:
    many = {f"server-{n}": f"127.0.{n // 250}.{1 + n % 250}:80" for n in range(servers)}
    kept = set()
    for name in ("nginx-wrr", "steelyard-static-vnswrr"):
        (tmp_path / name).mkdir()
        conf = configured(BY_NAME[name], tmp_path / name)
        conf = replace(conf, addresses=many, weights=dict.fromkeys(many, 1))
        if conf.algorithm.ours:
            place = conf.place
            blocks = steelyard_blocks(
                place.checkout, place.programs.nginx, servers=servers, clients=conf.clients
            )
            conf = replace(conf, upstream=blocks)
        pools = re.findall(
            r"^ +keepalive \d+;.*\n((?: +keepalive_.*\n)*)",
            render.configuration(conf, list(many)),
            flags=re.MULTILINE,
        )
        kept |= {" ".join(pool.split()) for pool in pools}
    assert kept == {"keepalive_requests 1000000000; keepalive_timeout 3600s;"}
