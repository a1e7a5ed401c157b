"""Headroom of an upstream in a closed loop with a known capacity."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from steelyard_controller import laws
from steelyard_controller.laws.blend import blend
from steelyard_controller.laws.decision import Decision
from steelyard_controller.laws.headroom import PATIENCE_TICKS, Carried, Headroom, ended_per_s, headroom
from steelyard_controller.laws.snapshot import Floats

from testing.fluid_model import Servers

from .closed_loop import Loop, ticks_at_once
from .snapshots import snapshot, steps

WARM = 120
NO_PINS = np.full(3, np.nan)


def loop(load: float) -> Loop[Servers]:
    servers = Servers(capacity=np.array([100.0, 200.0, 300.0]))
    demand = load * float(servers.capacity.sum())
    return Loop(law=laws.create("steelyard"), servers=servers, demand=demand)


@cache
def warmed() -> Mapping[float, tuple[Loop[Servers], Decision]]:
    """Return loops by load, with their decisions after WARM ticks."""
    loads = (0.2, 0.3, 0.5, 0.9)
    loops = [loop(load) for load in loads]
    decisions = ticks_at_once(loops, WARM)
    return dict(zip(loads, zip(loops, decisions, strict=True), strict=True))


def warm(load: float) -> Loop[Servers]:
    """Return a loop after WARM ticks, for the test alone to change."""
    return deepcopy(warmed()[load][0])


def decided(load: float) -> Decision:
    """Return the decision after WARM ticks."""
    return warmed()[load][1]


def of(
    decision: Decision,
    *,
    shadows: Iterable[Decision] = (),
    share: Floats | None = None,
    counts: Iterable[bool] = (),
    carries_per_s: float | None = 0.0,
) -> Headroom:
    k = len(decision.ids)
    share = decision.weights / decision.total if share is None else share
    there = np.array([*counts] or [True] * k)
    return headroom(decision, shadows, share, there, carries_per_s)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.9])
def test_the_capacity_of_unequal_servers_is_known_at_any_load(load: float) -> None:
    said = of(decided(load), carries_per_s=load * 600)
    assert said.could_carry_per_s == pytest.approx(0.7 * 600, rel=0.02)
    assert said.left_per_s == pytest.approx((0.7 - load) * 600, abs=0.02 * 600)
    assert said.ratio == pytest.approx(max(0.0, 1 - load / 0.7), abs=0.02)
    assert said.learnt == pytest.approx(1, abs=0.01)
    assert (said.servers, said.unknown) == (3, None)


def test_others_load_is_not_available() -> None:
    model = warm(0.3)
    before = of(decided(0.3)).could_carry_per_s
    model.servers.taken = np.array([0.0, 0.5, 0.0])
    now = of(model.ticks(30)).could_carry_per_s
    assert before == pytest.approx(0.7 * 600, rel=0.02)
    # A neighbour takes half of 200. The law counts a part of that as more expensive requests.
    assert now is not None
    assert 0.7 * 400 < now < 0.7 * 500


def test_the_target_is_the_load_at_which_the_law_sees_high_load() -> None:
    model = loop(0.5)
    model.law = laws.create("steelyard", {"H": 0.2, "L": 0.4})
    assert of(model.ticks(WARM)).could_carry_per_s == pytest.approx(0.8 * 600, rel=0.02)


def test_a_server_that_is_not_there_carries_nothing() -> None:
    decision = decided(0.3)
    said = of(decision, counts=[True, True, False], share=np.array([1 / 3, 2 / 3, 0.0]))
    assert said.could_carry_per_s == pytest.approx(0.7 * 300, rel=0.02)
    assert said.servers == 2
    # It still has its share, which the others will have to bear.
    borne = of(decision, counts=[True, True, False])
    assert borne.could_carry_per_s == pytest.approx(said.could_carry_per_s)


def test_headroom_is_unknown_without_a_server_that_counts() -> None:
    said = of(decided(0.3), counts=[False] * 3, carries_per_s=7.0)
    assert (said.could_carry_per_s, said.ratio, said.carries_per_s) == (None, None, 7.0)
    assert said.unknown == "no server gets requests, is measured and stays"


def test_a_server_that_fails_carries_little() -> None:
    model = loop(0.3)
    model.servers.failing = np.array([0.0, 0.0, 0.9])
    assert of(model.ticks(WARM)).could_carry_per_s == pytest.approx(0.7 * 300, rel=0.05)


def test_servers_that_are_new_count_at_once() -> None:
    said = of(loop(0.3).ticks(10))
    assert said.could_carry_per_s == pytest.approx(0.7 * 600, rel=0.1)


def test_a_server_that_load_balancers_leave_out_does_not_count() -> None:
    model = warm(0.3)
    model.away = np.array([False, False, True])
    said = of(model.ticks(5))
    assert said.servers == 2
    assert said.could_carry_per_s == pytest.approx(0.7 * 300, rel=0.05)


def test_a_pinned_server_bounds_all_if_it_is_full_first() -> None:
    decision = decided(0.3)

    def pinned(part: float) -> float | None:
        pins = np.array([part * decision.total, np.nan, np.nan])
        decided = replace(decision, columns={**decision.columns, "pinned": pins})
        share = np.array([part, 0.4 * (1 - part), 0.6 * (1 - part)])
        return of(decided, share=share).could_carry_per_s

    # With half of the requests, the server of 100 is full at 2 * 70. With few, the others are at 0.7 * 500.
    assert pinned(0.5) == pytest.approx(2 * 70, rel=0.02)
    assert pinned(0.01) == pytest.approx(0.7 * 500 / 0.99, rel=0.02)


def test_without_a_request_there_is_no_figure_but_a_reason() -> None:
    idle = snapshot(cpu=(0.0, 0.0, 0.0), completed=0, latency_s=None)
    _, decision = steps(laws.create("steelyard"), [idle] * 60)
    said = of(decision)
    assert (said.could_carry_per_s, said.left_per_s, said.ratio) == (None, None, None)
    assert said.unknown == "too few requests yet: 0 % of the capacity is learnt"


def test_after_the_last_request_all_of_it_is_left() -> None:
    model = warm(0.5)
    model.demand = 0.0
    said = of(model.ticks(200))
    assert said.ratio == 1
    assert said.could_carry_per_s == pytest.approx(0.7 * 600, rel=0.05)


@pytest.mark.parametrize("law", ["paper", "cswrr", "static"])
def test_a_law_that_learns_no_capacity_says_so_and_its_shadow_knows(law: str) -> None:
    seen = [snapshot(cpu=(0.8, 0.4, 0.4), completed=100)] * 60
    (_, live), (_, shadow) = (steps(laws.create(name), seen) for name in (law, "steelyard"))
    alone = of(live, carries_per_s=300.0)
    assert (alone.could_carry_per_s, alone.ratio, alone.carries_per_s) == (None, None, 300.0)
    assert alone.unknown == f"the law {law} learns no capacity; declare steelyard as a shadow"
    # By equal shares the slowest, of 125 requests/s, is full first.
    said = of(live, shadows=[shadow], share=np.full(3, 1 / 3))
    assert said.could_carry_per_s == pytest.approx(3 * 0.7 * 125, rel=0.02)


def test_in_a_blend_the_law_that_learns_gives_the_headroom() -> None:
    seen = [snapshot(cpu=(0.8, 0.4, 0.4), completed=100)] * 60
    (_, before), (_, after) = (steps(laws.create(name), seen) for name in ("steelyard", "paper"))
    said = of(blend(before, after, 50), share=np.full(3, 1 / 3))
    assert said.could_carry_per_s == pytest.approx(3 * 0.7 * 125, rel=0.02)


def test_the_carried_rate_is_all_ended_requests_smoothed() -> None:
    carried = Carried()
    for _ in range(200):
        for count in (90.0, 110.0):
            ended = ended_per_s(np.array([count, np.nan]), np.array([10.0, 0.0]), 1.0)
            carried = carried.after(float(ended), 1.0)
    assert carried.per_s == pytest.approx(110, rel=0.01)
    assert Carried().after(100.0, 0.5).per_s == 100


def test_the_ended_requests_of_several_upstreams_are_counted_at_once() -> None:
    completed = np.array([[50.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    ended = ended_per_s(completed, np.array([[5.0, 0.0], [0.0, 0.0], [3.0, 4.0]]), 0.5)
    assert np.array_equal(ended, [110.0, np.nan, 20.0], equal_nan=True)


def test_a_late_report_changes_nothing_and_none_is_not_known() -> None:
    carried = Carried(per_s=80.0)
    for _ in range(PATIENCE_TICKS):
        carried = carried.after(np.nan, 1.0)
        assert carried.per_s == 80
    silent = carried.after(np.nan, 1.0).per_s
    assert silent is None
    said = of(decided(0.3), carries_per_s=silent)
    assert said.could_carry_per_s is not None
    assert (said.ratio, said.unknown) == (None, "no load balancer reports traffic")
