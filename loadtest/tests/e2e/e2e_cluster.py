"""The cluster of the end-to-end tests."""

import subprocess
import sys
from pathlib import Path

from testing import warm_start
from testing.daemons import free_port

COMMAND = [sys.executable, "-m", "steelyard_loadtest"]


class Cluster:
    """A cluster of its own, on free ports."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.lb, self.api, self.memcached, self.redis = (free_port() for _ in range(4))
        self.first_server = free_port(3)

    @property
    def ports(self) -> list[int]:
        """Return the ports of all parts."""
        servers = range(self.first_server, self.first_server + 3)
        return [self.lb, self.api, self.memcached, self.redis, *servers]

    @property
    def flags(self) -> list[str]:
        """Return the flags that name the cluster."""
        return [
            *("--run-dir", str(self.run_dir), "--lb-port", str(self.lb), "--api-port", str(self.api)),
            *("--memcached-port", str(self.memcached), "--redis-port", str(self.redis)),
            *("--server-port", str(self.first_server)),
        ]

    def command(self, action: str) -> subprocess.CompletedProcess[str]:
        """Run `steelyard-loadtest cluster ACTION`."""
        return warm_start.run([*COMMAND, "cluster", action, *self.flags], patience_s=120)
