"""The files of a balancer and its controller. Pure: a `Scene` and a template in, text out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from steelyard_loadtest.lab.algorithms import Algorithm
from steelyard_loadtest.lab.rig.place import UPSTREAM
from steelyard_loadtest.lab.scenario.model import Scenario

TEMPLATES = {
    "nginx": "nginx.conf",
    "steelyard": "steelyard.conf",
    "haproxy": "haproxy.cfg",
    "envoy": "envoy.yaml",
}
"""The template by program."""

CLIENTS = 2000
"""The most that a scenario has at a time: siege's last step."""

CONNECTIONS = 16_384
"""nginx's worker_connections where none are asked for: both sides of every client, several times over."""

FAIR_MEMORY = "upstream_fair_shm_size 1m;"
"""After a reload old and new workers share it, and its default of 32 kB may not hold both lists."""

AGENT_WEIGHT = 100
"""HAProxy cuts a percentage of its weight off to a whole number (docs/haproxy.md)."""

CSWRR = {
    "@type": "type.googleapis.com/envoy.extensions.load_balancing_policies"
    ".client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
    # 10 s by default, which is a good part of a cell; reports are there after the first answers.
    "blackout_period": "2s",
    "weight_update_period": "1s",
    # The largest counts. By default the CPU alone does, and a full disk would look idle.
    "metric_names_for_computing_utilization": [
        "cpu_utilization",
        "named_metrics.net",
        "named_metrics.io",
    ],
}
"""Envoy's policy as its reference has it, fed by the reports in the servers' answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a balancer stands: its folder, ports, limits, and the scenario's servers in their order."""

    algorithm: Algorithm
    folder: Path
    lua_dir: Path
    port: int
    memcached_port: int
    api_port: int
    agent_check_port: int
    addresses: Mapping[str, str]
    weights: Mapping[str, int]
    files: int
    root: bool
    load_modules: tuple[str, ...] = ()
    socket: Path | None = None
    """HAProxy's command socket."""
    upstream: str = ""
    """Our upstream block, as `steelyard-upstream` prints it."""

    @property
    def endpoints(self) -> Path:
        """Return the file in which Envoy finds its servers."""
        return self.folder / "endpoints.json"


class _Percent(Template):
    # nginx's own variables begin with a dollar sign.
    delimiter = "%"


def weights(algorithm: Algorithm, scenario: Scenario) -> dict[str, int]:
    """Return the weight that the configuration gives each server."""
    known = scenario.weights
    if algorithm.weights == "true":
        return known
    if algorithm.weights == "reversed":
        return dict(zip(known, reversed(known.values()), strict=True))
    return dict.fromkeys(known, 1)


def configuration(scene: Scene, members: Sequence[str], template: str) -> str:
    """Return the balancer's configuration with these servers; `template` is the one of its program."""
    algorithm = scene.algorithm
    order = [name for name in scene.addresses if name in set(members)]
    if algorithm.backwards:
        order.reverse()
    names = {
        "folder": str(scene.folder),
        "lua_dir": str(scene.lua_dir),
        "port": str(scene.port),
        "memcached_port": str(scene.memcached_port),
        "api_port": str(scene.api_port),
        "files": str(scene.files),
        "connections": str(algorithm.connections or CONNECTIONS),
        "pool": str(len(scene.addresses) + CLIENTS),
        "load_modules": "\n".join(f"load_module {path};" for path in scene.load_modules),
        # As root its workers would become a user who may not read the checkout.
        "user": "user root;" if scene.root else "",
        "method": algorithm.method,
    }
    names |= _PARTS[algorithm.program](scene, order)
    return _Percent(template).substitute(names)


def controller(scene: Scene, template: str) -> str:
    """Return the controller's YAML file; whoever is not nginx sends it no reports."""
    reports = scene.algorithm.ours
    return _Percent(template).substitute(
        law=scene.algorithm.law,
        # HAProxy picks for itself; the table must name one all the same.
        picker=scene.algorithm.method if reports else "vnswrr2",
        reporters="edge-1" if reports else "",
        peers="\n".join(
            f"      - {json.dumps({'id': name} | peer(scene, name))}" for name in scene.addresses
        ),
    )


def peer(scene: Scene, name: str) -> dict[str, object]:
    """Return what the controller is told of a server.

    The paper's law begins with its equation 5, from the capacities that the agents
    report; a baseline would stand in its place.
    """
    address: dict[str, object] = {"address": scene.addresses[name]}
    return address if scene.algorithm.law == "paper" else address | {"baseline": scene.weights[name]}


def endpoints(scene: Scene, members: Sequence[str]) -> str:
    """Return the file in which Envoy finds its servers."""
    order = [name for name in scene.addresses if name in set(members)]
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": UPSTREAM,
        "endpoints": [{"lb_endpoints": [_endpoint(scene, name) for name in order]}],
    }
    return json.dumps({"resources": [assignment]}, indent=1) + "\n"


def _endpoint(scene: Scene, name: str) -> dict[str, object]:
    host, port = scene.addresses[name].rsplit(":", 1)
    return {
        "endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}},
        "load_balancing_weight": scene.weights[name],
    }


def _nginx(scene: Scene, order: Sequence[str]) -> dict[str, str]:
    lines = [f"        server {scene.addresses[name]} weight={scene.weights[name]};" for name in order]
    return {
        "servers": "\n".join(lines),
        "shared_memory": FAIR_MEMORY if scene.algorithm.method == "fair;" else "",
    }


def _steelyard(scene: Scene, order: Sequence[str]) -> dict[str, str]:
    return {
        "bootstrap": ", ".join(f'"{scene.addresses[name]}"' for name in order),
        "upstream": scene.upstream,
    }


def _haproxy(scene: Scene, order: Sequence[str]) -> dict[str, str]:
    agent = scene.algorithm.fed_by == "agent-check"
    lines = []
    for name in order:
        weight = AGENT_WEIGHT if agent else scene.weights[name]
        question = f' agent-send "{UPSTREAM}/{name}\\n"' if agent else ""
        lines.append(f"    server {name} {scene.addresses[name]} weight {weight}{question}")
    asked = f"agent-check agent-addr 127.0.0.1 agent-port {scene.agent_check_port} agent-inter 1s"
    return {
        "mode": scene.algorithm.mode,
        "reuse": "http-reuse always" if scene.algorithm.mode == "http" else "",
        "agent": asked if agent else "",
        "socket": str(scene.socket),
        "servers": "\n".join(lines),
    }


def _envoy(scene: Scene, _: Sequence[str]) -> dict[str, str]:
    policy: dict[str, object] = {"lb_policy": scene.algorithm.method}
    if scene.algorithm.fed_by == "orca":
        name = "envoy.load_balancing_policies.client_side_weighted_round_robin"
        extension = {"name": name, "typed_config": CSWRR}
        policy = {"load_balancing_policy": {"policies": [{"typed_extension_config": extension}]}}
    ((key, value),) = policy.items()
    return {"policy": f"{key}: {json.dumps(value)}", "endpoints": str(scene.endpoints)}


_PARTS = {"nginx": _nginx, "steelyard": _steelyard, "haproxy": _haproxy, "envoy": _envoy}
"""What a program's template has beside what all have."""
