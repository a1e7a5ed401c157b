"""The hosts of a stage: names, addresses, and what runs where. Pure."""

from steelyard_loadtest.stage.settings import Settings

OUTSIDE = "10.213.0.1"
"""This program's own address: the clients', and the observer's."""

PREFIX = "10.213.0."
PREFIX_LENGTH = 24

EDGE, MEMCACHED, REDIS = "edge", "memcached", "redis"

MOST_SERVERS, MOST_CONTROLLERS = 100, 9
"""As many as the address plan has room for."""

WEB_PORT = 8080
API_PORT = 8081
SERVER_PORT = 8100
STORE_PORTS = {MEMCACHED: 11211, REDIS: 6379}
"""Where the clients connect: to the proxy on the store's host."""
DAEMON_PORTS = {MEMCACHED: 11212, REDIS: 6380}
"""Where the store itself listens, behind the proxy."""
CONTROL_PORT = 9000
"""Where a store's proxy takes orders."""


def controllers(settings: Settings) -> tuple[str, ...]:
    """Return the controllers' names, which are their hosts' too."""
    return tuple(f"controller-{number}" for number in range(1, settings.controllers + 1))


def servers(settings: Settings) -> tuple[str, ...]:
    """Return the servers' names, which are their hosts' too."""
    return tuple(f"server-{number}" for number in range(1, settings.servers + 1))


def agent_of(server: str) -> str:
    """Return the name of the agent on a server's host."""
    return server.replace("server", "agent")


def addresses(settings: Settings) -> dict[str, str]:
    """Return every host's IP address by its name. Raises ValueError when there are too many."""
    if not 1 <= settings.servers <= MOST_SERVERS:
        raise ValueError(f"a stage has 1 to {MOST_SERVERS} servers, not {settings.servers}")
    if not 1 <= settings.controllers <= MOST_CONTROLLERS:
        raise ValueError(f"a stage has 1 to {MOST_CONTROLLERS} controllers, not {settings.controllers}")
    last = {EDGE: 10}
    last |= {name: 21 + number for number, name in enumerate(controllers(settings))}
    last |= {MEMCACHED: 31, REDIS: 32}
    last |= {name: 41 + number for number, name in enumerate(servers(settings))}
    return {name: f"{PREFIX}{number}" for name, number in last.items()}
