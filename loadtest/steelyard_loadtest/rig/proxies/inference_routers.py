"""Routers before inference engines, which get their engines on their command line (I/O)."""

from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig


class Sglang(Proxy):
    """sglang-router."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster."""
        place = conf.place
        urls = [f"http://{address}" for address in conf.addresses.values()]
        program = place.programs.path("sglang")
        return parts.sglang(
            place.balancer_port, urls, conf.algorithm.method, place.follow_port, program=program
        )

    def _write(self, members: Sequence[str]) -> None:
        """Write nothing: there is no file."""
