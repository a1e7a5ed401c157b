"""The same seconds make the same memory, whatever the tick: what is smoothed, is smoothed by the second."""

from dataclasses import replace

import numpy as np
import pytest
from steelyard_controller import laws

from .snapshots import snapshot

STEELYARD = laws.create("steelyard")


def after(tick_s: float) -> laws.Memory:
    """Return the memory after ten seconds at half load, and four of which the first server is busier."""
    memory = STEELYARD.start()
    for tick in range(round(14 / tick_s)):
        cpu = (0.5 if tick * tick_s < 10 else 0.8, 0.5, 0.5)
        each = snapshot(cpu=cpu, completed=200 * tick_s, in_flight=4, latency_s=0.02)
        memory, _ = STEELYARD.step(memory, replace(each, t_s=tick * tick_s, tick_s=tick_s))
    return memory


@pytest.mark.parametrize("tick_s", [0.5, 0.25])
def test_residuals_are_smoothed_by_the_second(tick_s: float) -> None:
    smoothed = [after(each).columns["rs"][0, 0] for each in (1.0, tick_s)]
    assert smoothed[0] == pytest.approx(0.2 + 0.3 / 2**4)
    assert smoothed[1] == pytest.approx(smoothed[0])


@pytest.mark.parametrize("tick_s", [0.5, 0.25])
def test_what_is_in_flight_at_half_load_is_learnt_by_the_second(tick_s: float) -> None:
    learnt = [after(each).scalars["in_flight_at_half"] for each in (1.0, tick_s)]
    # Of 200 requests of 20 ms four are in flight at half load; it begins at one.
    assert learnt[0] > 2.5
    assert learnt[1] == pytest.approx(learnt[0], rel=0.05)
    assert np.isfinite(learnt).all()
