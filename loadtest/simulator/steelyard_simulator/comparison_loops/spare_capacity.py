"""Servers that report their spare capacity with each answer, for Angie's `feedback`.

Pure. The example of Angie's documentation ("Upstream Feedback") is such a header, `X-Capacity`; it leaves
open how a server gets the number. Here it is the idle cores in hundredths, 100 cores (1 - CPU utilization),
measured over each second. So an answer's number is up to a second old.
"""

from collections.abc import Sequence

from steelyard_simulator.balancer import Balancer
from steelyard_simulator.engine import Engine
from steelyard_simulator.model import Case
from steelyard_simulator.pickers.angie import AngieFeedback
from steelyard_simulator.simulated_server import CpuMeter, SimulatedServer

PERIOD_S = 1.0


class SpareCapacity:
    """The servers' numbers."""

    def __init__(self, case: Case, seed: int) -> None:  # noqa: ARG002 - a loop's
        self._engine: Engine
        self._cores = [server.cores for server in case.servers]
        # Until the first second has passed, all servers are idle.
        self.values = [100.0 * cores for cores in self._cores]

    def begin(
        self, engine: Engine, servers: Sequence[SimulatedServer], balancers: Sequence[Balancer]
    ) -> None:
        """Measure from now on, and let the pickers read a server's number with each of its answers."""
        self._engine = engine
        for balancer in balancers:
            if isinstance(balancer.picker, AngieFeedback):
                balancer.picker.reported = self.values
        for index, server in enumerate(servers):
            engine.at(PERIOD_S, self._measure, (index, CpuMeter(server)))

    def _measure(self, now_s: float, of: tuple[int, CpuMeter]) -> None:
        index, meter = of
        self.values[index] = round(100.0 * self._cores[index] * (1.0 - meter.read(now_s)))
        self._engine.at(now_s + PERIOD_S, self._measure, of)
