"""Loops of published algorithms beside their pickers, for comparison: they set weights or inform the pickers.

A loop has its own measurements and its own period, and the case's delays on the way to the load balancers.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from steelyard_simulator.balancer import Balancer
from steelyard_simulator.comparison_loops.knapsack_lb import KnapsackLb
from steelyard_simulator.comparison_loops.robinhood import Robinhood
from steelyard_simulator.comparison_loops.spare_capacity import SpareCapacity
from steelyard_simulator.engine import Engine
from steelyard_simulator.model import Case
from steelyard_simulator.simulated_server import SimulatedServer

__all__ = ["LOOPS", "Loop", "create"]


class Loop(Protocol):
    """Acts on the servers and load balancers of one run."""

    def begin(
        self, engine: Engine, servers: Sequence[SimulatedServer], balancers: Sequence[Balancer]
    ) -> None:
        """Schedule its periods."""


LOOPS: dict[str, Callable[[Case, int], Loop]] = {
    "robinhood": Robinhood,
    "knapsacklb": KnapsackLb,
    "spare-capacity": SpareCapacity,
}
"""By the name in `Balancing.loop`, made from the case and the seed."""


def create(case: Case, seed: int) -> Loop | None:
    """Return the case's loop. Raises ValueError for an unknown name."""
    name = case.balancing.loop
    if name is None:
        return None
    if name not in LOOPS:
        raise ValueError(f"there is no loop {name!r} in the model; choose one of: {', '.join(LOOPS)}")
    return LOOPS[name](case, seed)
