"""Servers without agents; load balancers know the used part of their `max_conns` they have in flight."""

from dataclasses import replace

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Floats

from testing.fluid_model import Window

from .closed_loop import LongRequests, Loop

TRUE_SHARES = np.array([1, 1, 2, 2]) / 6
MAX_CONNS = 64


class InFlight(LongRequests):
    """Streams last longer the more there are, and an indicator shows their number."""

    def serve(self, arriving: Floats) -> Window:
        window = super().serve(arriving)
        utilization = np.full((len(arriving), 4), np.nan)
        utilization[:, 0] = window.in_flight / MAX_CONNS
        return replace(window, utilization=utilization)


@pytest.mark.parametrize("sampled", [True, False])
def test_the_used_part_of_max_conns_shows_a_server_of_twice_the_speed(sampled: bool) -> None:
    servers = InFlight(24 * TRUE_SHARES, 0.5 / TRUE_SHARES)
    loop = Loop(law=laws.create("steelyard", {}), servers=servers, demand=18.0)
    loop.sampled = np.array([sampled])
    loop.ticks(200)
    settled = np.mean(loop.shares[100:], axis=0)
    # Equal declarations, and nothing else is known about them.
    assert settled == pytest.approx(TRUE_SHARES if sampled else np.full(4, 0.25), abs=0.03)
