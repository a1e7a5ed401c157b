"""Routers before inference engines, which get their engines on their command line (I/O)."""

from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig


class _Router(Proxy):
    """A router without a configuration file."""

    def _write(self, members: Sequence[str]) -> None:
        """Write nothing."""


class Sglang(_Router):
    """sglang-router."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster."""
        return parts.sglang(*_arguments(conf), program=conf.place.programs.path("sglang"))


class Vllm(_Router):
    """vllm-router."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster."""
        return parts.vllm(*_arguments(conf), program=conf.place.programs.path("vllm"))


def _arguments(conf: BalancerConfig) -> tuple[int, list[str], str, int]:
    urls = [f"http://{address}" for address in conf.addresses.values()]
    return conf.place.balancer_port, urls, conf.algorithm.method, conf.place.follow_port
