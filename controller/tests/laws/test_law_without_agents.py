"""Servers without agents; load balancers know the used part of their `max_conns` they have in flight."""

from dataclasses import replace

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.snapshot import Floats

from testing.fluid_model import Window

from .closed_loop import LongRequests, Loop, ticks_at_once
from .snapshots import snapshot

TRUE_SHARES = np.array([1, 1, 2, 2]) / 6
MAX_CONNS = 64


class InFlight(LongRequests):
    """Streams last longer the more there are, and an indicator shows their number."""

    def serve(self, arriving: Floats) -> Window:
        window = super().serve(arriving)
        utilization = np.full((len(arriving), 4), np.nan)
        utilization[:, 0] = window.in_flight / MAX_CONNS
        return replace(window, utilization=utilization)


def test_the_used_part_of_max_conns_shows_a_server_of_twice_the_speed() -> None:
    loops = [
        Loop(
            law=laws.create("steelyard", {}),
            servers=InFlight(24 * TRUE_SHARES, 0.5 / TRUE_SHARES),
            demand=18.0,
            sampled=np.array([sampled]),
        )
        for sampled in (True, False)
    ]
    ticks_at_once(loops, 200)
    seen, unseen = (np.mean(loop.shares[100:], axis=0) for loop in loops)
    assert seen == pytest.approx(TRUE_SHARES, abs=0.03)
    # Equal declarations, and nothing else is known about them.
    assert unseen == pytest.approx(np.full(4, 0.25), abs=0.03)


@pytest.mark.parametrize("per_tick", [1, 3, 10])
@pytest.mark.parametrize("sampled", [0, 5])
def test_equal_servers_with_few_requests_are_not_held_back_between_them(per_tick: int, sampled: int) -> None:
    # Seven of ten had ten times the weight of the others for ever: a tick without a request was an absence.
    law, ids = laws.create("steelyard", {}), [f"s{number}" for number in range(10)]
    memory, weights, current = law.start(), np.ones(10), np.zeros(10)
    widest = 1.0
    for tick in range(60):
        completed = np.zeros(10)
        for _ in range(per_tick + tick % 3 - 1):
            current += weights
            row = int(current.argmax())
            current[row] -= weights.sum()
            completed[row] += 1
        rows = [[0.01] * 4] * sampled + [None] * (10 - sampled)
        latency_s = [0.01 if count else None for count in completed]
        memory, decision = law.step(
            memory,
            snapshot(
                ids=ids, utilization=rows, completed=completed.tolist(), latency_s=latency_s, in_flight=0.0
            ),
        )
        weights = np.array(decision.weights, dtype=np.float64)
        widest = max(widest, weights.max() / weights.min())
    assert widest < 1.5
