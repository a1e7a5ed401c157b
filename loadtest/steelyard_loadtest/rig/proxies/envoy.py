"""Envoy, alone or with our controller (I/O)."""

from collections.abc import Sequence

from steelyard_loadtest.cluster import parts
from steelyard_loadtest.cluster.parts import Part
from steelyard_loadtest.machine.child_process import wait_until
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig import render
from steelyard_loadtest.rig.proxies.proxy import Proxy
from steelyard_loadtest.rig.render import BalancerConfig


class Envoy(Proxy):
    """Envoy; its servers change by replacing a file, or by our controller."""

    @staticmethod
    def part(conf: BalancerConfig) -> Part:
        """Return it as a part of a cluster; its configuration need not be there yet."""
        return parts.envoy(conf.place.balancer_port, conf.config, program=conf.place.programs.path("envoy"))

    def wait(self) -> None:
        """Wait until it takes connections and, with our controller, has reported to it."""
        super().wait()
        if self._control is not None:
            wait_until(self._why_no_report, [self.process, self._control.process])

    def set_members(self, names: Sequence[str]) -> None:
        """Replace the file that it watches, or inform the controller."""
        if self._control is not None:
            self._control.set_members(names)
        else:
            write_text(self._conf.endpoints, render.endpoints(self._conf, names))

    def _before_start(self) -> None:
        if self._control is not None:
            self._control.wait()  # otherwise it asks in vain, and again seconds later
        else:
            self.set_members(tuple(self._conf.addresses))
