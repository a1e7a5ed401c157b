"""Traefik with a strategy of its own (I/O)."""

from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig


class Traefik(Proxy):
    """Traefik; its servers change by replacing the file that it watches."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster; its configuration need not be there yet."""
        program = conf.place.programs.path("traefik")
        return parts.traefik(conf.place.balancer_port, conf.config, program=program)

    def set_members(self, names: Sequence[str]) -> None:
        """Replace the file of its servers."""
        write_text(self._conf.endpoints, render.traefik_servers(self._conf, names))

    def _before_start(self) -> None:
        self.set_members(tuple(self._conf.addresses))
