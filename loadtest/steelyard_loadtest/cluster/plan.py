"""A local cluster: its parts, and the files they read.

Pure but for reading the templates: a `Cluster` in, texts and commands out.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.cluster.nginx import Nginx, Steelyard
from steelyard_loadtest.cluster.parts import HOST, Part

LOAD_BALANCER = "edge-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A demo server: its name, port and CPU limit in cores."""

    name: str
    port: int
    cpu_limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster's folder and ports; everything is on 127.0.0.1."""

    checkout: Path
    run_dir: Path
    lb_port: int
    api_port: int
    memcached_port: int
    redis_port: int
    servers: tuple[Server, ...]
    law: str = "steelyard"
    nginx_workers: int = 2
    nginx_modules: tuple[str, ...] = ()
    user: str | None = None
    """The user for daemons that refuse to run as root, if this is root."""

    @property
    def log_dir(self) -> Path:
        """Return the folder of all logs."""
        return self.run_dir / "logs"

    @property
    def state_dir(self) -> Path:
        """Return the folder of the weight tables that nginx saves."""
        return self.run_dir / "nginx-state"


def components(cluster: Cluster) -> list[Part]:
    """Return the cluster's processes in the order in which they start."""
    memcached = f"{HOST}:{cluster.memcached_port}"
    started = [
        parts.memcached(cluster.memcached_port, user="nobody" if cluster.user == "root" else None),
        # Nothing outlives `make down`: a new cluster begins at its baselines.
        parts.redis(cluster.redis_port, cluster.run_dir),
    ]
    for server in cluster.servers:
        pid_file, limit = cluster.run_dir / f"{server.name}.pid", server.cpu_limit
        started += [
            parts.server(
                server.name,
                server.port,
                pid_file=pid_file,
                count_file=cluster.run_dir / f"{server.name}.count",  # the demo reads it
                cpu_limit=limit,
            ),
            parts.agent(server.name, memcached=memcached, pid_file=pid_file, cpu_limit=limit),
        ]
    started += [
        parts.controller(
            cluster.api_port,
            cluster.run_dir / "controller.yaml",
            memcached=memcached,
            state_url=f"redis://{HOST}:{cluster.redis_port}/0",
        ),
        parts.nginx(cluster.lb_port, cluster.run_dir, log=cluster.log_dir / "nginx.log"),
    ]
    return started


def files(cluster: Cluster) -> dict[str, str]:
    """Return the text of every file of the cluster, by its name in the run folder.

    commands.txt only serves to compare the settings of a running cluster.
    """
    addresses = {server.name: f"{HOST}:{server.port}" for server in cluster.servers}
    peers = [{"id": name, "address": address, "baseline": 1} for name, address in addresses.items()]
    return {
        "nginx.conf": _nginx_conf(cluster, list(addresses.values())),
        "controller.yaml": nginx.controller(peers, law=cluster.law, load_balancers=[LOAD_BALANCER]),
        "commands.txt": "".join(f"{shlex.join(part.command)}\n" for part in components(cluster)),
    }


def _nginx_conf(cluster: Cluster, addresses: list[str]) -> str:
    options = {
        "memcached": [f"{HOST}:{cluster.memcached_port}"],
        # nginx asks it when Memcached has nothing new.
        "controller": [f"http://{HOST}:{cluster.api_port}"],
        # The last table, for a start without Memcached and controller.
        "state_dir": str(cluster.state_dir),
        "lb": LOAD_BALANCER,
        "upstreams": {parts.UPSTREAM: {"bootstrap": addresses}},
    }
    return nginx.steelyard(
        Nginx(
            folder=cluster.run_dir,
            log=cluster.log_dir / "nginx.log",
            log_level="notice",
            listen=f"{HOST}:{cluster.lb_port}",
            workers=cluster.nginx_workers,
            connections=4096,
            user=cluster.user,
            modules=cluster.nginx_modules,
            directives=["proxy_connect_timeout 1s"],
        ),
        Steelyard(lua_dir=cluster.checkout / "openresty", options=options, equal_servers=addresses),
        title="Made by `steelyard-loadtest cluster up`; edit the template, not this file.",
    )
