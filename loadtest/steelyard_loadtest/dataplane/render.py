"""The files that a contender is started with. Pure: a `Scene` and templates in, text out."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

from steelyard_loadtest.dataplane.contenders import Contender
from steelyard_loadtest.dataplane.peers import UPSTREAM, Peer

TEMPLATES = {
    "nginx": "nginx.conf",
    "steelyard": "steelyard.conf",
    "haproxy": "haproxy.cfg",
    "envoy": "envoy.yaml",
}
"""The template by program."""

FAIR_MEMORY = "upstream_fair_shm_size 64m;"
"""Its default of 32 kB is too small for 2000 servers, and then it crashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a contender stands: its folder, ports, limits, and the servers behind it."""

    folder: Path
    lua_dir: Path
    port: int
    backend_port: int
    memcached_port: int
    peers: tuple[Peer, ...]
    connections: int
    files: int
    backend_workers: int
    root: bool
    load_modules: tuple[str, ...] = ()
    upstream: str = ""
    """Our upstream blocks, as `steelyard-upstream` prints them."""


class _Percent(Template):
    # nginx's own variables begin with a dollar sign.
    delimiter = "%"


def backend(scene: Scene, template: str) -> str:
    """Return the servers' nginx.conf."""
    return _Percent(template).substitute(_names(scene))


def configuration(contender: Contender, scene: Scene, template: str) -> str:
    """Return the contender's configuration; `template` is the one of its program."""
    names = _names(scene) | {"method": contender.method, "servers": _servers(contender, scene)}
    names["shared_memory"] = FAIR_MEMORY if contender.method == "fair;" else ""
    if contender.program == "steelyard":
        names |= _ours(scene.upstream)
    return _Percent(template).substitute(names)


def think_script(template: str, figures: str, think_ms: int) -> str:
    """Return the wrk script of users who wait `think_ms` on average between two requests."""
    return _Percent(template).substitute(think_ms=2 * think_ms, figures=figures)


def shards(upstream: str) -> int:
    """Return how many blocks of a sharded pool there are; 0 when one block holds it whole."""
    return len(re.findall(rf"^upstream {UPSTREAM}_\d+ {{$", upstream, re.MULTILINE))


def _names(scene: Scene) -> dict[str, str]:
    return {
        "folder": str(scene.folder),
        "lua_dir": str(scene.lua_dir),
        "port": str(scene.port),
        "backend_port": str(scene.backend_port),
        "memcached_port": str(scene.memcached_port),
        "backend_workers": str(scene.backend_workers),
        "files": str(scene.files),
        "pool": str(len(scene.peers) + scene.connections),
        "load_modules": "\n".join(f"load_module {path};" for path in scene.load_modules),
        # As root its workers would become a user who may not read the checkout.
        "user": "user root;" if scene.root else "",
    }


def _servers(contender: Contender, scene: Scene) -> str:
    if contender.program == "nginx":
        return "\n".join(f"        server {peer.address} weight={peer.weight};" for peer in scene.peers)
    if contender.program == "haproxy":
        return "\n".join(f"    server {peer.id} {peer.address} weight {peer.weight}" for peer in scene.peers)
    if contender.program == "envoy":
        return "\n".join(f"            - {json.dumps(_endpoint(peer))}" for peer in scene.peers)
    return ""


def _endpoint(peer: Peer) -> dict[str, object]:
    address, port = peer.address.rsplit(":", 1)
    socket_address = {"address": address, "port_value": int(port)}
    return {
        "endpoint": {"address": {"socket_address": socket_address}},
        "load_balancing_weight": peer.weight,
    }


def _ours(upstream: str) -> dict[str, str]:
    count = shards(upstream)
    choose = f'set_by_lua_block $steelyard_web {{ return require("steelyard").shard("{UPSTREAM}") }}'
    return {
        "upstream": upstream,
        "shards": f"shards = {count}" if count else "",
        "choose": choose if count else "",
        "target": "$steelyard_web" if count else UPSTREAM,
    }
