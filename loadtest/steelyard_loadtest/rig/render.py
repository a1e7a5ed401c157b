"""The files of a balancer and its controller: a `BalancerConfig` in, text out. Pure but for the templates."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard_protocol.sample_record import INDICATORS

from steelyard_loadtest.cluster import nginx
from steelyard_loadtest.cluster.nginx import Nginx, Steelyard
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.machine.programs import OTHERS, STREAM_LUA
from steelyard_loadtest.reporting.statistics import grouped
from steelyard_loadtest.rig.place import Place
from steelyard_loadtest.scenario.algorithms import Algorithm
from steelyard_loadtest.scenario.definition import Scenario
from steelyard_loadtest.templates import render_file

CLIENTS = 2000
"""The largest number of users in a scenario: the last level of `paper`."""

CONNECTIONS = 16_384
"""nginx's default worker_connections here: both sides of every client, several times over."""

KEPT = ("keepalive_requests 1000000000", "keepalive_timeout 3600s")
"""Connections last as long as the measurement."""

DIRECTIVES = (*KEPT, "proxy_connect_timeout 5s", "proxy_read_timeout 60s")
"""A server with a full backlog drops SYNs, which come again after 1 s and 3 s. A server with a long queue is
slow, not broken."""

FAIR_MEMORY = "upstream_fair_shm_size 64m"
"""The module's default of 32 kB is too small for 2000 servers, and then it crashes."""

MEMORY = "20m"
"""Size of Steelyard's dictionary: 2000 servers, with a reserve."""

AGENT_WEIGHT = 100
"""HAProxy truncates a percentage of its weight to a whole number (docs/guides/haproxy.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envoy:
    """The values of an Envoy's configuration.

    lb            its name
    zone          its own; "" without zones
    method        its `lb_policy`; with `orca` the policy that uses load reports replaces it
    orca_port     where the servers' agents stream load reports; 0: the reports are in the answers
    controllers   the servers of xDS and load reports. Without any, the servers are in the file `endpoints`,
                  which it watches, or otherwise in `servers`, an LbEndpoint each
    """

    lb: str
    port: int
    method: str
    listen: str = HOST
    zone: str = ""
    orca: bool = False
    orca_port: int = 0
    controllers: Sequence[tuple[str, int]] = ()
    endpoints: Path | None = None
    servers: Sequence[object] = ()


def envoy_yaml(envoy: Envoy) -> str:
    """Return envoy.yaml."""
    return render_file(nginx.TEMPLATES / "envoy.yaml", {"envoy": envoy, "upstream": UPSTREAM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One server behind a proxy."""

    name: str
    address: str
    weight: int

    @property
    def endpoint(self) -> dict[str, object]:
        """Return it as Envoy's LbEndpoint."""
        host, port = self.address.rsplit(":", 1)
        return {
            "endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}},
            "load_balancing_weight": self.weight,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerConfig:
    """The values of a balancer's configuration: its place, its servers in order, its limits.

    zones     each server's, if there are any
    socket    where a program takes commands
    upstream  our upstream block from `steelyard-upstream`
    clients   connections at a time
    number    its number among several, from 1
    """

    algorithm: Algorithm
    place: Place
    addresses: Mapping[str, str]
    weights: Mapping[str, int]
    zones: Mapping[str, str] = field(default_factory=dict)
    files: int
    root: bool
    socket: Path | None = None
    upstream: str = ""
    clients: int = CLIENTS
    number: int = 1

    @property
    def zone(self) -> str:
        """Return the balancer's zone, which is the first server's; "" without zones."""
        return next(iter(self.zones.values()), "")

    @property
    def folder(self) -> Path:
        """Return the folder of its configuration and log."""
        return self.place.folder / ("balancer" if self.number == 1 else f"balancer-{self.number}")

    @property
    def config(self) -> Path:
        """Return the balancer's configuration file."""
        program = OTHERS.get(self.algorithm.program)
        return self.folder / (program.config if program else "nginx.conf")

    @property
    def endpoints(self) -> Path:
        """Return the file in which Envoy or Traefik finds its servers."""
        return self.folder / ("servers.yaml" if self.algorithm.program == "traefik" else "endpoints.json")

    @property
    def log(self) -> Path:
        """Return the balancer's log."""
        return self.folder / f"{self.algorithm.program}.log"

    @property
    def nginx(self) -> Nginx:
        """Return the settings of an nginx here besides its servers."""
        algorithm, programs = self.algorithm, self.place.programs
        if algorithm.ours and algorithm.mode == "tcp":
            modules = programs.modules.get(STREAM_LUA)
        else:
            modules = programs.needs(algorithm.program, algorithm.method)
        return Nginx(
            folder=self.folder,
            log=self.log,
            listen=f"{HOST}:{self.place.balancer_port} backlog=4096",
            connections=algorithm.connections or CONNECTIONS,
            files=self.files,
            # As root its workers would become a user who may not read the checkout.
            user="root" if self.root else None,
            modules=modules or (),
            directives=(
                *DIRECTIVES,
                *([FAIR_MEMORY] if algorithm.method == "fair;" else []),
                *algorithm.directives,
            ),
        )

    def backends(self, members: Sequence[str]) -> list[Backend]:
        """Return these servers, in the order of the configuration."""
        weights_set_at_runtime = self.algorithm.fed_by in ("agent-check", "reporter")
        weights = dict.fromkeys(self.weights, AGENT_WEIGHT) if weights_set_at_runtime else self.weights
        backends = [
            Backend(name=name, address=address, weight=weights[name])
            for name, address in self.addresses.items()
            if name in set(members)
        ]
        return backends[::-1] if self.algorithm.backwards else backends


def weights(algorithm: Algorithm, scenario: Scenario) -> dict[str, int]:
    """Return the weight that the configuration gives each server."""
    known = scenario.weights
    if algorithm.weights == "true":
        return known
    if algorithm.weights == "reversed":
        return dict(zip(known, reversed(known.values()), strict=True))
    return dict.fromkeys(known, 1)


def configuration(conf: BalancerConfig, members: Sequence[str]) -> str:
    """Return the balancer's configuration with these servers."""
    servers = conf.backends(members)
    if conf.algorithm.program == "envoy":
        return envoy_yaml(_envoy(conf, servers))
    if not conf.algorithm.ours:
        template = "native.conf" if conf.config.name == "nginx.conf" else conf.config.name
        values = {"conf": conf, "nginx": conf.nginx, "servers": servers, "upstream": UPSTREAM}
        return render_file(nginx.TEMPLATES / template, values)
    place = conf.place
    if conf.algorithm.mode == "tcp":
        return nginx.steelyard_stream(
            conf.nginx,
            place.checkout / "openresty",
            {
                "memcached": [f"{HOST}:{place.memcached_port}"],
                "lb": "edge-1",
                "upstreams": {UPSTREAM: {"bootstrap": [server.address for server in servers]}},
            },
        )
    count = shards(conf.upstream)
    bootstrap = [server.address for server in servers] if place.api_port else []
    # All options have their defaults: max_fails 3, fail_timeout_s 10, ejection by error rate, 2 retries.
    options = {
        "memcached": [f"{HOST}:{place.memcached_port}"],
        "controller": [f"http://{HOST}:{place.api_port}"] if place.api_port else None,
        "lb": f"edge-{conf.number}",
        "zone": conf.zone or None,
        "share_in_flight": conf.algorithm.shares_in_flight,
        "upstreams": {UPSTREAM: {"bootstrap": bootstrap, "shards": count or None, **conf.algorithm.options}},
    }
    ours = Steelyard(
        lua_dir=place.checkout / "openresty",
        options={name: value for name, value in options.items() if value is not None},
        blocks=conf.upstream,
        shards=bool(count),
        all_pages=False,
        memory=MEMORY,
    )
    title = "The same nginx with Steelyard, as in openresty/README.md."
    return nginx.steelyard(conf.nginx, ours, title=title)


def _envoy(conf: BalancerConfig, servers: Sequence[Backend]) -> Envoy:
    place, fed_by = conf.place, conf.algorithm.fed_by
    return Envoy(
        lb=f"edge-{conf.number}",
        zone=conf.zone,
        port=place.balancer_port,
        method=conf.algorithm.method,
        orca=fed_by in ("orca", "orca-stream"),
        orca_port=place.orca_port if fed_by == "orca-stream" else 0,
        controllers=[(HOST, place.follow_port)] if fed_by == "xds" else (),
        endpoints=conf.endpoints if place.api_port else None,
        servers=[server.endpoint for server in servers],
    )


def endpoints(conf: BalancerConfig, members: Sequence[str]) -> str:
    """Return the file in which Envoy finds these servers, a locality for each zone."""
    by_zone = grouped(conf.backends(members), lambda server: conf.zones.get(server.name, ""))
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": UPSTREAM,
        "endpoints": [
            ({"locality": {"zone": zone}} if zone else {})
            | {"lb_endpoints": [one.endpoint for one in servers]}
            for zone, servers in by_zone.items()
        ],
    }
    return json.dumps({"resources": [assignment]}, indent=1) + "\n"


def traefik_servers(conf: BalancerConfig, members: Sequence[str]) -> str:
    """Return the file in which Traefik finds these servers."""
    values = {"conf": conf, "servers": conf.backends(members), "upstream": UPSTREAM}
    return render_file(nginx.TEMPLATES / "traefik-servers.yaml", values)


def shards(upstream: str) -> int:
    """Return the number of blocks of a sharded pool; 0 for a single block."""
    return len(re.findall(rf"^upstream {UPSTREAM}_\d+ {{$", upstream, re.MULTILINE))


def controller(conf: BalancerConfig) -> str:
    """Return the controller's YAML file; a balancer that is not ours may send it no reports."""
    reports = conf.algorithm.ours or conf.algorithm.fed_by in ("reporter", "xds")
    extra_indicators = conf.algorithm.indicators
    standard_indicators: dict[str, Mapping[str, float]] = {}
    if conf.algorithm.four:
        standard_indicators = {name: {} for name in INDICATORS}
    return nginx.controller(
        [{"id": name} | peer(conf, name) for name in conf.addresses],
        law=conf.algorithm.law,
        # HAProxy and Envoy pick by themselves, but the table must name a picker.
        picker=conf.algorithm.method if conf.algorithm.ours else "vnswrr2",
        load_balancers=[f"edge-{one}" for one in range(1, conf.algorithm.balancers + 1)] if reports else (),
        indicators={**standard_indicators, **extra_indicators} if extra_indicators else None,
    )


def peer(conf: BalancerConfig, name: str) -> dict[str, object]:
    """Return a server's declaration for the controller.

    The paper's law begins with its equation 5, from the capacities that the agents report. A baseline would
    replace it.
    """
    address: dict[str, object] = {"address": conf.addresses[name]}
    zone = {"zone": conf.zones[name]} if conf.zones else {}
    return address | zone | ({} if conf.algorithm.law == "paper" else {"baseline": conf.weights[name]})
