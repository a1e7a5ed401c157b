"""How a stage is to be: how many of each part, and the times that a fault may want shorter. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a stage consists of; times that have no reason are those that we ship.

    faketime: every daemon runs under libfaketime, so that its host's clock can be stepped. signed:
    the shared key and a read token everywhere; the admin token is there in any case.
    """

    servers: int = 3
    controllers: int = 2
    nginx_workers: int = 2
    upstream: str = "web"
    faketime: bool = False
    signed: bool = True
    jit: bool = True
    """Off: nginx interprets its Lua. Then its heap holds what Lua keeps, and nothing that LuaJIT compiled."""
    server_delay_ms: float = 5.0
    """How late a server answers without working; 0: it works."""
    connect_timeout_s: float = 1.0
    read_timeout_s: float = 3.0
    """Of nginx: so long a request waits for a server that has vanished. Answers take some milliseconds."""
    check_interval_s: float = 1.0
    check_timeout_s: float = 1.0
    tick_s: float = 1.0
    lease_s: float = 3.0
    fetch_interval_s: float = 0.5
    hold_s: float = 60.0
    drift_s: float = 300.0
