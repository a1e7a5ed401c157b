"""Caddy with a policy of its own (I/O)."""

import http.client
import socket
from collections.abc import Sequence
from pathlib import Path

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import HOST, Part
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig

RELOAD_S = 20.0
"""Caddy answers once its new configuration serves, late on a busy machine."""


class Caddy(Proxy):
    """Caddy; its servers change by its admin API, which reloads without closing connections."""

    has_socket = True

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster; its configuration need not be there yet."""
        return parts.caddy(conf.place.balancer_port, conf.config, program=conf.place.programs.path("caddy"))

    def set_members(self, names: Sequence[str]) -> None:
        """Give it a configuration with these servers; requests under way end where they are."""
        admin = _AdminConnection(Path(str(self._conf.socket)))
        try:
            body = render.configuration(self._conf, names)
            admin.request("POST", "/load", body, {"Content-Type": "application/json"})
            answer = admin.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ProgramError(f"Caddy does not take a new configuration: {error}") from None
        finally:
            admin.close()
        if answer.status != 200:
            raise ProgramError(f"Caddy answers {answer.status} to a new configuration: {text[:300]!r}")

    def _before_start(self) -> None:
        """Need no folder: it keeps nothing on disk."""


class _AdminConnection(http.client.HTTPConnection):
    """HTTP at a Unix socket, which Caddy serves for a Host of this machine."""

    def __init__(self, path: Path) -> None:
        super().__init__(HOST, timeout=RELOAD_S)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(RELOAD_S)
        self.sock.connect(str(self._path))
