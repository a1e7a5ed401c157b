"""The settings of a stage, and its hosts: names, addresses, ports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OUTSIDE = "10.213.0.1"
"""This program's own address, for the load and the looks."""

PREFIX = "10.213.0."
PREFIX_LENGTH = 24

UPSTREAM = "web"
EDGE, MEMCACHED, REDIS = "edge", "memcached", "redis"
SECOND_LB = "edge-9"
"""Name of the second nginx, which some faults run without a declaration."""
CONTROLLERS = ("controller-1", "controller-2")

WEB_PORT = 8080
OWN_LOG_PORT = 8083
"""nginx's port of the same servers, with a location that has its own log_by_lua."""
API_PORT = 8081
SERVER_PORT = 8100
STORE_PORTS = {MEMCACHED: 11211, REDIS: 6379}
"""Ports of the clients' connections: the proxy on the store's host."""
DAEMON_PORTS = {MEMCACHED: 11212, REDIS: 6380}
"""Ports of the stores themselves, behind the proxy."""
PROXY_PORT = 8082
"""Port of a proxy on each controller's host. Its requests reach the API from loopback."""
XDS_PORT, XDS_DAEMON_PORT = 18000, 18001
"""Envoy's port: a proxy on a controller's host; and the controller's behind it, on loopback without TLS."""
RUNTIME_PORT, RUNTIME_DAEMON_PORT = 9998, 9999
"""HAProxy's runtime socket: the proxy's port, for the reporter, and HAProxy's own behind it."""
CONTROL_PORT = 9000
"""Port of a proxy for orders."""

TICK_S = 1.0
"""The controllers' tick, the default."""

Front = Literal["nginx", "haproxy", "envoy"]

FRONT_PORTS: Mapping[Front, int] = {"nginx": WEB_PORT, "haproxy": 8090, "envoy": 8091}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a stage."""

    servers: int = 3
    """At most 100."""
    nginx_workers: int = 2
    faketime: bool = False
    """Run every daemon under libfaketime, which can step its host's clock."""
    front: Front = "nginx"
    """The load balancer of the requests; HAProxy (with its reporter) or Envoy runs beside nginx."""
    jit: bool = True
    """If False, nginx interprets its Lua, so its heap holds Lua's data without compiled code."""


NAMESERVER = f"{PREFIX}250"
"""An address without a host, so that look-ups of names missing in `/etc/hosts` hang."""


def name_of(host: str) -> str:
    """Return a host's name for look-ups."""
    return f"{host}.stage"


def hosts_file(settings: Settings) -> str:
    """Return /etc/hosts, the only source of names."""
    known = {"localhost": "127.0.0.1"} | {name_of(name): ip for name, ip in addresses(settings).items()}
    return "".join(f"{ip} {name}\n" for name, ip in known.items())


def servers(settings: Settings) -> tuple[str, ...]:
    """Return the names of the servers and of their hosts."""
    return tuple(f"server-{number}" for number in range(1, settings.servers + 1))


def addresses(settings: Settings) -> dict[str, str]:
    """Return every host's IP address by its name."""
    last = {EDGE: 10}
    last |= {name: number for number, name in enumerate(CONTROLLERS, start=21)}
    last |= {MEMCACHED: 31, REDIS: 32}
    last |= {name: number for number, name in enumerate(servers(settings), start=41)}
    return {name: f"{PREFIX}{number}" for name, number in last.items()}
