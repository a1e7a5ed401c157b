"""nginx with a method of its own (I/O)."""

from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig


class Nginx(Proxy):
    """nginx with a method of its own; its servers change by a reload."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster; its configuration need not be there yet."""
        programs, port = conf.place.programs, conf.place.balancer_port
        # nginx with our Lua is the measured one, too.
        program = (
            programs.path("nginx-mainline") if conf.algorithm.program == "nginx-mainline" else programs.nginx
        )
        return parts.nginx(port, conf.folder, log=conf.log, program=program)

    def set_members(self, names: Sequence[str]) -> None:
        """Reload; requests under way end in the old worker."""
        old = set(self.process.workers())
        self._write(names)
        self.process.reload()
        wait_until(
            lambda: None if set(self.process.workers()) - old else "nginx did not reload", [self.process]
        )
