"""Near servers first until their headroom is used, then the others, without a jump."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.laws.snapshot import Floats
from steelyard_controller.laws.zones import LARGEST_FACTOR, Zoning, factors, mixed, parts

EVEN = np.array([1, 1, 1, 0]) / 3


def of(*figures: float) -> Floats:
    return np.array(figures)


def test_within_the_headroom_nothing_crosses() -> None:
    assert parts(EVEN, of(90, 50, 10, 0), 300.0)[:3, :3] == pytest.approx(np.eye(3))


def test_requests_above_the_headroom_go_to_other_zones_by_their_headroom() -> None:
    by_zone = parts(EVEN, of(150, 60, 80, 0), 300.0)
    # 100 of the 150 stay; 40 and 20 are left in the others.
    assert by_zone[0] == pytest.approx(of(100, 50 * 40 / 60, 50 * 20 / 60, 0) / 150)
    assert by_zone[1:3, :3] == pytest.approx(np.eye(3)[1:])


def test_above_all_headroom_every_server_is_as_busy_as_the_next_and_no_more_crosses_than_must() -> None:
    share, demand = of(0.5, 0.25, 0.25, 0), of(200, 100, 300, 0)
    by_zone = parts(share, demand, 300.0)
    assert demand @ by_zone == pytest.approx(600 * share)
    assert demand @ (1 - np.diag(by_zone)) == pytest.approx(150)


def test_without_a_known_headroom_it_is_envoys_rule_with_weights() -> None:
    """Envoy: percent local = min(100, hosts' % / originating %), the rest if hosts' % is above it."""
    by_zone = parts(of(0.4, 0.2, 0.4, 0), of(100, 100, 100, 0), None)
    assert by_zone[1] == pytest.approx(of(0.2, 0.6, 0.2, 0))
    assert by_zone[0] == pytest.approx(of(1, 0, 0, 0))


def test_load_balancers_without_a_zone_go_by_the_weights_and_are_reckoned_with() -> None:
    share = of(0.5, 0.25, 0, 0.25)
    by_zone = parts(share, of(60, 20, 0, 100), 200.0)
    assert by_zone[3] == pytest.approx(share)
    # Half of the 100 that could still be carried are zone 0's; its other 10 go to zone 1 and to no zone.
    assert by_zone[0] == pytest.approx(of(50, 10 * 5 / 30, 0, 10 * 25 / 30) / 60)


def test_a_zone_without_servers_uses_others_headroom_and_a_new_zone_begins_near() -> None:
    by_zone = parts(of(0.5, 0.5, 0, 0), of(0, 90, 30, 0), 200.0)
    assert by_zone[0] == pytest.approx(of(1, 0, 0, 0))
    assert by_zone[2] == pytest.approx(of(100 / 110, 10 / 110, 0, 0))
    assert parts(EVEN, of(0, 0, 0, 0), None) == pytest.approx(np.tile(EVEN, (4, 1)))


figure = st.floats(0, 1000)


@given(st.lists(figure, min_size=4, max_size=4), st.lists(figure, min_size=4, max_size=4), figure)
def test_no_zone_gets_more_than_its_part_and_a_small_change_is_a_small_change(
    weights: list[float], demand: list[float], could: float
) -> None:
    share = of(*weights) + 1e-3
    share /= share.sum()
    given = of(*demand) + 1.0
    by_zone = parts(share, given, could)
    assert (by_zone >= 0).all()
    assert by_zone.sum(axis=1) == pytest.approx(np.ones(4))
    room = share * max(could, given.sum())
    assert (given @ by_zone <= room * (1 + 1e-9) + 1e-9).all()
    # Requests that go elsewhere, for each further request.
    moved = np.abs((given * 1.0001) @ parts(share, given * 1.0001, could) - given @ by_zone).sum()
    assert moved <= 3 * 0.0001 * given.sum() + 1e-9


def test_factors_give_the_parts_back_and_leave_no_zone_out() -> None:
    share = of(0.5, 0.25, 0.25, 0)
    by_zone = parts(share, of(150, 10, 40, 0), 250.0)
    told = factors(by_zone, share)
    assert (told.min(), told.max()) == (1, LARGEST_FACTOR)
    back = told * share / (told * share).sum(axis=1, keepdims=True)
    assert back == pytest.approx(by_zone, abs=0.005)
    # If all load balancers use the weights alone, every factor is the same.
    assert set(factors(np.tile(EVEN, (4, 1)), EVEN)[:, :3].ravel()) == {LARGEST_FACTOR}


def test_all_published_factors_are_mixed_by_the_zones_traffic() -> None:
    share = of(0.5, 0.5, 0)
    told = factors(parts(share, of(90, 10, 0), 300.0), share)
    assert mixed(told, share, of(90, 10, 0))[:2] * share[:2] == pytest.approx([0.9, 0.1], abs=0.002)
    assert mixed(told, share, of(0, 0, 0))[:2] == pytest.approx([1.0, 1.0])


def test_arrivals_are_smoothed_and_the_factors_follow_within_seconds() -> None:
    """At first all factors are equal. A zone with some servers away has a smaller share."""
    before = Zoning.of_peers([0, 0, 1], 2)
    assert before.followed(of(10, 10, 20), before.none()) == pytest.approx([10, 10, 20])
    seen = before.none()
    seen[0, 0], seen[1, 1] = 80, 20
    known = before.after(seen, 1.0).decide(of(0.25, 0.25, 0.5), 200.0)
    assert known.per_s == pytest.approx(seen)
    assert known.factors[0].tolist() == [LARGEST_FACTOR, 1, 1]
    # Four of five requests are due to the two servers of zone 0.
    due = known.followed(of(10, 10, 20), seen)
    assert due / due.sum() == pytest.approx([0.4, 0.4, 0.2], abs=0.002)
    later = known.after(2 * seen, 1.0)
    assert later.per_s is not None
    assert 81 < later.per_s[0, 0] < 110
    half = later.decide(of(0.33, 0, 0.67), 150.0)
    assert half.share == pytest.approx([0.33, 0.67, 0])
    assert 400 < half.factors[0, 1] < 1000
