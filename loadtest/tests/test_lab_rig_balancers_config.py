"""Every program accepts the configuration that it gets for every algorithm."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from steelyard_loadtest.lab.algorithms import ALGORITHMS, Algorithm
from steelyard_loadtest.lab.rig import front, render
from steelyard_loadtest.lab.rig.nginx import our_upstream
from steelyard_loadtest.lab.rig.place import Place
from steelyard_loadtest.machine import found as programs
from steelyard_loadtest.machine.found import Found

from conftest import free_port

pytestmark = pytest.mark.integration

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = ("server-1", "server-2", "server-3")


@cache
def found() -> Found:
    """Return what is on this machine."""
    return programs.find(None)


def configured(algorithm: Algorithm, folder: Path) -> render.Scene:
    """Return a scene of servers that need not be there, with every file written."""
    modules = found().needs(algorithm) or ()
    place = Place(
        folder=folder,
        checkout=CHECKOUT,
        found=found(),
        memcached_port=1,
        redis_port=1,
        balancer_port=free_port(),
        api_port=1,
        agent_check_port=1,
        server_ports=(),
    )
    scene = render.Scene(
        algorithm=algorithm,
        folder=folder,
        lua_dir=CHECKOUT / "openresty" / "lua",
        port=place.balancer_port,
        memcached_port=place.memcached_port,
        api_port=place.api_port,
        agent_check_port=place.agent_check_port,
        addresses={name: f"127.0.0.{number}:80" for number, name in enumerate(NAMES, 1)},
        weights=dict.fromkeys(NAMES, 1),
        files=1024,
        root=os.geteuid() == 0,
        load_modules=modules,
        socket=folder / "s",
        upstream=our_upstream(place, len(NAMES)) if algorithm.ours else "",
    )
    if algorithm.program == "envoy":
        scene.endpoints.write_text(render.endpoints(scene, NAMES))
    return scene


@pytest.mark.parametrize(
    "algorithm", [each for each in ALGORITHMS if each.program != "direct"], ids=lambda a: a.name
)
def test_the_program_itself_accepts_every_configuration(algorithm: Algorithm, tmp_path: Path) -> None:
    scene = configured(algorithm, tmp_path)
    config = str(front.write(scene, NAMES))
    command = {
        "haproxy": [found().haproxy or "haproxy", "-c", "-f", config],
        "envoy": [found().envoy or "envoy", "-c", config, "--mode", "validate", "--log-level", "error"],
    }.get(
        algorithm.program,
        [found().nginx, "-t", "-p", str(tmp_path), "-c", config, "-e", str(tmp_path / "log")],
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn" not in (done.stdout + done.stderr).lower()
