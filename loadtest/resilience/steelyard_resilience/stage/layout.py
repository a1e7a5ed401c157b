"""The daemons of a stage, their hosts, and their configuration files. Pure: settings and a place in."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard_loadtest.cluster import nginx, parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.programs import LUA, Programs
from steelyard_loadtest.rig import render

from steelyard_resilience import CHECKOUT
from steelyard_resilience.stage import hosts
from steelyard_resilience.stage.hosts import EDGE, MEMCACHED, REDIS, Settings

CONCURRENCY = 1000
"""Room in nginx's pools for requests in flight: 200 a second, each for 5 s while a server hangs."""

ANYWHERE = "0.0.0.0"  # noqa: S104 - of a host that has one address

CONNECT_TIMEOUT_MS, READ_TIMEOUT_MS = 1000, 3000
"""nginx's waits for a server that has vanished. Answers take some milliseconds."""

MAX_CONNS = 300
"""Limit of requests in flight at a server; only a leak of reservations reaches it. At 200 a second, one of
three servers that hangs has 67 a second, for 3 s; 500 open requests at a reload are a third at each. The
limit over all load balancers is twice as high; with it, they report short requests to each other, too."""

OWN_LOG = f"""
server {{
    listen {hosts.OWN_LOG_PORT} backlog=4096;
    location / {{ proxy_pass http://{hosts.UPSTREAM}; log_by_lua_block {{ return }} }}
}}
"""

NGINX_LB, SECOND_LB = "edge-1", "edge-2"
"""The second is HAProxy, or Envoy."""

SERVER_DELAY_MS = 5.0
"""A server's delay of each answer, without work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folder of a stage, and the installed programs.

    clocks: libfaketime's path; None: the clocks are true.
    """

    folder: Path
    programs: Programs
    clocks: Path | None = None

    def secret(self, name: str) -> Path:
        """Return the file of a secret: `key`, `read-token`, or the controllers' `steelyard/admin_token`."""
        return self.folder / "secrets" / name

    @property
    def state_dir(self) -> Path:
        """Return nginx's folder of saved tables."""
        return self.folder / "nginx-state"

    @property
    def redis_dir(self) -> Path:
        """Return the folder of Redis's append-only file."""
        return self.folder / "redis"

    def clock(self, host: str) -> Path:
        """Return the file with the offset of a host's clock."""
        return self.folder / "clocks" / host


def daemons(settings: Settings, place: Place) -> tuple[Part, ...]:
    """Return the daemons in the order in which they start."""
    address = hosts.addresses(settings)
    store = {name: f"{address[name]}:{port}" for name, port in hosts.STORE_PORTS.items()}
    key = place.secret("key")
    # A change of user would clear the signal that ends it with this program (prctl(2), PR_SET_PDEATHSIG).
    memcached = parts.memcached(hosts.DAEMON_PORTS[MEMCACHED], "-c", "4096", listen=ANYWHERE, user="root")
    redis = parts.redis(hosts.DAEMON_PORTS[REDIS], place.redis_dir, listen=ANYWHERE, keep=True)
    redis = _on(place, REDIS, redis)
    daemons = [_on(place, MEMCACHED, memcached), replace(redis, environment=_without_jemalloc(redis))]
    for name in hosts.CONTROLLERS:
        controller = parts.controller(
            hosts.API_PORT, place.folder / "controller.yaml", name=name, id=name, api_host=ANYWHERE,
            advertise_url=f"http://{address[name]}:{hosts.API_PORT}",
            memcached=store[MEMCACHED], state_url=f"redis://{store[REDIS]}/0",
            tick_s=hosts.TICK_S, lease_s=3.0, key_file=key, read_token_file=place.secret("read-token"),
            xds_port=hosts.XDS_DAEMON_PORT if settings.front == "envoy" else None,
        )  # fmt: skip
        # The controllers make the admin token themselves.
        part = _on(place, name, controller)
        state = {"XDG_STATE_HOME": str(place.folder / "secrets")}
        daemons.append(replace(part, environment=dict(part.environment) | state))
    for name in hosts.servers(settings):
        pid_file = place.folder / f"{name}.pid"
        server = parts.server(
            name, hosts.SERVER_PORT, pid_file=pid_file, host=ANYWHERE,
            delay_ms=SERVER_DELAY_MS,
        )  # fmt: skip
        # A demo server uses at most one core.
        agent = parts.agent(
            name, memcached=store[MEMCACHED], pid_file=pid_file, upstream=hosts.UPSTREAM, cpu_limit=1,
            key_file=key,
        )  # fmt: skip
        daemons += [_on(place, name, server), _on(place, name, agent)]
    if settings.front == "haproxy":
        daemons += [_on(place, EDGE, each) for each in _haproxy(address[EDGE], store[MEMCACHED], place)]
    if settings.front == "envoy":
        config, program = place.folder / "envoy.yaml", place.programs.path("envoy")
        daemons.append(_on(place, EDGE, parts.envoy(hosts.FRONT_PORTS["envoy"], config, program=program)))
    log = place.folder / "logs" / "nginx.log"
    edge = _on(place, EDGE, parts.nginx(hosts.WEB_PORT, place.folder, log=log, program=place.programs.nginx))
    # On TERM, unlike KILL, it ends its workers, too.
    return (*daemons, replace(edge, orphan_signal="TERM"))


def _haproxy(address: str, memcached: str, place: Place) -> tuple[Part, Part]:
    config = place.folder / "haproxy.cfg"
    # A reload needs a master process, as on Debian.
    haproxy = replace(parts.haproxy(hosts.FRONT_PORTS["haproxy"], config, mode="-W"), stop_signal="USR1")
    reporter = parts.reporter(
        f"{address}:{hosts.RUNTIME_PORT}", memcached=memcached, lb=SECOND_LB, key_file=place.secret("key")
    )
    return haproxy, reporter


def haproxy_cfg(settings: Settings) -> str:
    """Return haproxy.cfg, like that of docs/guides/haproxy.md, with nginx's timeouts."""
    address = hosts.addresses(settings)
    servers = "".join(
        f"    server {name} {address[name]}:{hosts.SERVER_PORT} check inter 1s weight 100\n"
        for name in hosts.servers(settings)
    )
    return f"""global
    stats socket ipv4@{ANYWHERE}:{hosts.RUNTIME_DAEMON_PORT} level admin
    stats socket abns@haproxy level admin expose-fd listeners
defaults
    mode http
    option redispatch
    timeout connect {CONNECT_TIMEOUT_MS}ms
    timeout client 30s
    timeout server {READ_TIMEOUT_MS}ms
frontend www
    bind :{hosts.FRONT_PORTS["haproxy"]} backlog 4096
    default_backend {hosts.UPSTREAM}
backend {hosts.UPSTREAM}
    balance leastconn
    option httpchk GET /healthz
{servers}"""


def envoy_yaml(settings: Settings) -> str:
    """Return envoy.yaml: no retries, no checks, and servers from any controller."""
    address = hosts.addresses(settings)
    controllers = [(address[name], hosts.XDS_PORT) for name in hosts.CONTROLLERS]
    port = hosts.FRONT_PORTS["envoy"]
    return render.envoy_yaml(
        render.Envoy(
            lb=SECOND_LB, listen=ANYWHERE, port=port, method="LEAST_REQUEST", controllers=controllers
        )
    )


def proxies(settings: Settings) -> tuple[Part, ...]:
    """Return the proxies before stores and APIs; they belong to the stage, not to the cluster."""
    ports = {store: (port, hosts.DAEMON_PORTS[store]) for store, port in hosts.STORE_PORTS.items()}
    of_controllers = hosts.PROXY_PORT, hosts.API_PORT
    if settings.front == "envoy":
        of_controllers = hosts.XDS_PORT, hosts.XDS_DAEMON_PORT
    ports |= dict.fromkeys(hosts.CONTROLLERS, of_controllers)
    if settings.front == "haproxy":
        ports[EDGE] = hosts.RUNTIME_PORT, hosts.RUNTIME_DAEMON_PORT
    return tuple(
        Part(
            name=f"{host}-proxy",
            host=host,
            command=(
                sys.executable, "-m", "steelyard_resilience.stage.delaying_proxy", str(port), str(behind),
                str(hosts.CONTROL_PORT),
            ),
            port=hosts.CONTROL_PORT,
            orphan_signal="KILL",
            environment={"PYTHONUNBUFFERED": "1"},
        )
        for host, (port, behind) in ports.items()
    )  # fmt: skip


def nginx_conf(settings: Settings, place: Place, blocks: str) -> str:
    """Return nginx.conf; `blocks` is the output of steelyard-upstream."""
    address = hosts.addresses(settings)
    servers = [f"{address[name]}:{hosts.SERVER_PORT}" for name in hosts.servers(settings)]
    controllers = [f"http://{address[name]}:{hosts.API_PORT}" for name in hosts.CONTROLLERS]
    check = {"path": "/healthz", "statuses": [200], "interval_s": 1.0, "timeout_s": 1.0}
    general = nginx.Nginx(
        folder=place.folder,
        log=place.folder / "logs" / "nginx.log",
        log_level="notice",
        listen=f"{hosts.WEB_PORT} backlog=4096",
        workers=settings.nginx_workers,
        connections=4096,
        files=16_384,
        user="root",  # the checkout may be in a private home
        modules=place.programs.modules[LUA] or (),
        # nginx hides its environment from its workers by default.
        environment=_faked_clock(place, EDGE),
        directives=[
            "server_tokens off",
            "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for",
            # The wait for a silent server, before nginx tries another one.
            f"proxy_connect_timeout {CONNECT_TIMEOUT_MS}ms",
            f"proxy_read_timeout {READ_TIMEOUT_MS}ms",
            "proxy_next_upstream error timeout",
        ],
    )
    ours = nginx.Steelyard(
        lua_dir=CHECKOUT / "openresty",
        options={
            "memcached": [f"{address[MEMCACHED]}:{hosts.STORE_PORTS[MEMCACHED]}"],
            "controller": controllers,
            "state_dir": str(place.state_dir),
            "lb": NGINX_LB,
            "allow": [hosts.OUTSIDE],
            "fetch_interval_s": 0.5,
            "hold_s": 60.0,
            "drift_s": 300.0,
            "upstreams": {hosts.UPSTREAM: {"bootstrap": servers, "check": check, "max_conns": MAX_CONNS}},
        },
        secrets={"key": place.secret("key"), "controller_token": place.secret("read-token")},
        upstream=hosts.UPSTREAM,
        blocks=blocks + OWN_LOG,
        jit=settings.jit,
    )
    return nginx.steelyard(general, ours, title="The load balancer of a stage.")


def controller_yaml(settings: Settings) -> str:
    """Return the controllers' file."""
    address = hosts.addresses(settings)
    peers = [
        {"id": name, "address": f"{address[name]}:{hosts.SERVER_PORT}", "baseline": 1}
        for name in hosts.servers(settings)
    ]
    balancers = (NGINX_LB,) if settings.front == "nginx" else (NGINX_LB, SECOND_LB)
    return nginx.controller(peers, upstream=hosts.UPSTREAM, load_balancers=balancers, max_conns=2 * MAX_CONNS)


def _faked_clock(place: Place, host: str) -> dict[str, str]:
    if place.clocks is None:
        return {}
    return {
        "LD_PRELOAD": str(place.clocks),
        "FAKETIME_TIMESTAMP_FILE": str(place.clock(host)),
        # Seconds between two reads of the file (default 10).
        "FAKETIME_CACHE_DURATION": "1",
        # Only the time of day steps; the monotonic clock stays true.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def _on(place: Place, host: str, part: Part) -> Part:
    # A stopped process gets KILL at once; other signals wait until it continues.
    python = {"PYTHONUNBUFFERED": "1"} if part.command[0] == sys.executable else {}
    return replace(part, host=host, orphan_signal="KILL", environment=_faked_clock(place, host) | python)


def _without_jemalloc(redis: Part) -> Mapping[str, str]:
    # Debian's Redis uses jemalloc, which asks for the time during its initialization, while libfaketime
    # allocates memory during its own: a deadlock. So libc's malloc is preloaded.
    preload = redis.environment.get("LD_PRELOAD")
    return dict(redis.environment) | ({"LD_PRELOAD": f"{preload}:libc.so.6"} if preload else {})
