"""Where a comparison runs: its folder, the programs, and the ports. Pure."""

from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.machine.found import Found

UPSTREAM = "web"
"""The name that agents, controller and balancers know the servers by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder for configurations and logs, what is installed, and TCP ports on 127.0.0.1.

    server_ports: one for each server of the scenario, in its order.
    """

    folder: Path
    checkout: Path
    found: Found
    memcached_port: int
    redis_port: int
    balancer_port: int
    api_port: int
    agent_check_port: int
    server_ports: tuple[int, ...]
