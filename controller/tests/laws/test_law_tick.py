"""The same seconds make the same memory at any tick: smoothing is by the second."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from steelyard_controller import laws

from .snapshots import snapshot, steps

STEELYARD = laws.create("steelyard")


@cache
def after(tick_s: float) -> laws.Memory:
    """Return the memory after ten seconds at half load, and four with a busier first server."""
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
def test_the_number_in_flight_at_half_load_is_learnt_by_the_second(tick_s: float) -> None:
    learnt = [after(each).scalars["in_flight_at_half"] for each in (1.0, tick_s)]
    # With 200 requests of 20 ms, four are in flight at half load; V_half begins at one.
    assert learnt[0] > 2.5
    assert learnt[1] == pytest.approx(learnt[0], rel=0.05)
    assert np.isfinite(learnt).all()


@pytest.mark.parametrize("tick_s", [0.5, 0.25])
def test_windows_are_of_a_second(tick_s: float) -> None:
    remembered = after(tick_s)
    # Each: requests, load seconds, seconds.
    windows = remembered.columns["recent"].reshape(3, -1, 3)
    assert windows[0, -1] == pytest.approx([200.0, 0.8, 1.0])
    assert windows[1] == pytest.approx(after(1.0).columns["recent"].reshape(3, -1, 3)[1])
    assert remembered.columns["windows"][0] == pytest.approx(after(1.0).columns["windows"][0])


@pytest.mark.parametrize("tick_s", [1.0, 0.5, 0.25])
@pytest.mark.parametrize(("completed", "cpu", "within_s"), [(8, 0.8, 3), (4, 0.9, 7)])
def test_a_change_of_seconds_is_detected_at_any_tick(
    tick_s: float, completed: float, cpu: float, within_s: float
) -> None:
    even, busy = (
        snapshot(cpu=(first, 0.5, 0.5), completed=completed * tick_s, latency_s=0.06, tick_s=tick_s)
        for first in (0.5, cpu)
    )
    memory, _ = steps(STEELYARD, [even] * round(40 / tick_s) + [busy] * round(within_s / tick_s))
    assert memory.columns["restarts"].tolist() == [1, 0, 0]


@pytest.mark.parametrize("tick_s", [0.5, 0.25])
def test_a_loss_need_not_wait_for_its_second_to_be_over(tick_s: float) -> None:
    even, busy = (
        snapshot(cpu=(first, 0.4, 0.4), completed=200 * tick_s, in_flight=4, latency_s=0.02, tick_s=tick_s)
        for first in (0.4, 0.9)
    )
    memory, _ = steps(STEELYARD, [even] * round(20.5 / tick_s) + [busy])
    assert memory.columns["restarts"].tolist() == [1, 0, 0]
    # No evidence from before the change is left.
    assert memory.columns["sums"][0, :3] == pytest.approx([200 * tick_s, 0.9 * tick_s, tick_s])


@pytest.mark.parametrize("tick_s", [1.0, 0.5, 0.25])
def test_a_backlog_counts_for_three_seconds_without_a_report(tick_s: float) -> None:
    reported, silence = (
        snapshot(completed=completed, in_flight=(80, 4, 4), cpu=(1.0, 0.4, 0.4), tick_s=tick_s)
        for completed in (100 * tick_s, None)
    )
    memory, _ = steps(STEELYARD, [reported] * round(10 / tick_s))
    silent = []
    for _tick in range(round(4 / tick_s)):
        memory, decision = STEELYARD.step(memory, silence)
        silent.append(bool(decision.columns["backlog"][0] < 1.0))
    assert silent == [True] * round(3 / tick_s) + [False] * round(1 / tick_s)
