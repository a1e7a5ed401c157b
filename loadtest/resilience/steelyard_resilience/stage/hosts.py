"""How a stage is to be, and its hosts: names, addresses, ports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OUTSIDE = "10.213.0.1"
"""This program's own address: the clients', and the looks'."""

PREFIX = "10.213.0."
PREFIX_LENGTH = 24

UPSTREAM = "web"
EDGE, MEMCACHED, REDIS = "edge", "memcached", "redis"
SECOND_LB = "edge-9"
"""A second nginx's name, while a fault runs one: nobody declared it."""
CONTROLLERS = ("controller-1", "controller-2")

WEB_PORT = 8080
OWN_LOG_PORT = 8083
"""Of nginx: the same servers, by a location that has a log_by_lua of its own."""
API_PORT = 8081
SERVER_PORT = 8100
STORE_PORTS = {MEMCACHED: 11211, REDIS: 6379}
"""Where the clients connect: to the proxy on the store's host."""
DAEMON_PORTS = {MEMCACHED: 11212, REDIS: 6380}
"""Where the store itself listens, behind the proxy."""
PROXY_PORT = 8082
"""Of a proxy on each controller's host, through which whoever asks the API is on its loopback."""
XDS_PORT, XDS_DAEMON_PORT = 18000, 18001
"""Where Envoy asks: a proxy on a controller's host, and the controller behind it, which then needs no TLS."""
RUNTIME_PORT, RUNTIME_DAEMON_PORT = 9998, 9999
"""HAProxy's runtime socket: behind a proxy too, where the reporter connects, and where HAProxy listens."""
CONTROL_PORT = 9000
"""Where a proxy takes orders."""

TICK_S = 1.0
"""Of the controllers, as we ship it."""

Front = Literal["nginx", "haproxy", "envoy"]

FRONT_PORTS: Mapping[Front, int] = {"nginx": WEB_PORT, "haproxy": 8090, "envoy": 8091}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a stage consists of.

    servers: at most 100. faketime: every daemon runs under libfaketime, so that its host's clock can be
    stepped. front: the load balancer that requests go to; beside nginx stands HAProxy with its reporter, or
    Envoy, which asks the controllers. jit: off, nginx
    interprets its Lua; then its heap holds what Lua keeps, and nothing that LuaJIT compiled.
    """

    servers: int = 3
    nginx_workers: int = 2
    faketime: bool = False
    front: Front = "nginx"
    jit: bool = True


NAMESERVER = f"{PREFIX}250"
"""Where nobody is, so that look-ups of what `/etc/hosts` has not hang."""


def name_of(host: str) -> str:
    """Return a host's name for look-ups."""
    return f"{host}.stage"


def hosts_file(settings: Settings) -> str:
    """Return /etc/hosts, by which all names are resolved."""
    known = {"localhost": "127.0.0.1"} | {name_of(name): ip for name, ip in addresses(settings).items()}
    return "".join(f"{ip} {name}\n" for name, ip in known.items())


def servers(settings: Settings) -> tuple[str, ...]:
    """Return the servers' names, which are their hosts' too."""
    return tuple(f"server-{number}" for number in range(1, settings.servers + 1))


def addresses(settings: Settings) -> dict[str, str]:
    """Return every host's IP address by its name."""
    last = {EDGE: 10}
    last |= {name: number for number, name in enumerate(CONTROLLERS, start=21)}
    last |= {MEMCACHED: 31, REDIS: 32}
    last |= {name: number for number, name in enumerate(servers(settings), start=41)}
    return {name: f"{PREFIX}{number}" for name, number in last.items()}
